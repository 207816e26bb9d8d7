"""A writer that plays prepared answers and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable

from refold.writer.asker import Answer, Request

Scripted = Answer | str | BaseException | Callable[[Request], Answer | str]


class ScriptedWriter:
    """Gives its answers in order, and the last one from then on. An exception among them is
    raised; a function is called with the request. `requests` are what it was asked."""

    def __init__(self, *answers: Scripted, window: int = 32_000) -> None:
        self.answers: list[Scripted] = list(answers) or ["Goal: none.\nDone: nothing."]
        self.window = window
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Answer | str:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Answer | str) else answer(request)

    @property
    def prompt(self) -> str:
        """The newest prompt."""
        return self.requests[-1].prompt
