"""A question that is answered by a word or its first letter, such as yes or no.

What is no answer is said, with what would be one, and asked again. No answer at all is no.
Neighbours: `edges.cli.screen` asks in a shell, `edges.chat` before a tool changes something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

ANSWERS_MAX = 3
YES_NO = ("yes", "no")


def chosen(ask: Callable[[str], str], question: str, words: Sequence[str] = YES_NO) -> str:
    """The word that was meant; `no` where nothing was, or nothing that could be understood."""
    shown = ", ".join(f"[{word[0]}]{word[1:]}" for word in words)
    letters = [word[0] for word in words]
    hint = ""
    for _ in range(ANSWERS_MAX):
        typed = ask(f"{hint}{question} {shown}:").strip().lower()
        for word in words:
            if typed in (word[0], word):
                return word
        if not typed:
            break
        hint = f"Please answer {', '.join(letters[:-1])} or {letters[-1]}. "
    return "no"
