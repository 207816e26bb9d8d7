"""Our prose reads like a native engineer's: a list of turns of phrase that ours kept falling into.

Each rule names a pattern and what to write instead. Code, quotes and code spans are taken out
first. A line that is right as it is gets `english: ok` with a reason in a comment.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXCUSED_MAX = 40
RULES = {
    r"(?<![Tt]here )\b(?:is|are|was|were|be) none\b(?! of)": "is not a NOUN",
    r"\bno more\b(?! than| of| and| or|[- ][a-z]+s\b)": "no longer",
    r"\b[Ww]hat (?:a|an|the|one|each|every) [a-z]+ (?:[a-z]+ )?(?:that|which)\b": "name the thing",
    r"(?:^|[.;:,] |\bor |\band )[Tt](?:hat|hose) of\b": "repeat the noun",
    r"\bso (?:many|few)\b(?! (?:as|that)\b)": "a number, or leave it out",
    r"\b(?:stands?|stood) (?:in|at|on|there|here|before|after|beside|above|below|under|with|twice)\b": "is",
    r"\b(?:tells?|told|telling|speaks?|spoke|spoken) of\b": "names, mentions, reports",
    r"^(?:Says|Tells|Said|Told) (?!\")": "Returns, reports, prints, raises",
    r"\b(?:is|are|was|were|be|being) told\b(?! to\b| by\b| apart\b)": "is reported, receives",
    r"\b[Ww]ho(?:m|so)?ever\b(?! (?:can|may|could|must|should)\b)": "a caller that, anyone who",
    r"\b(?:of|by|from) (?:others|somebody else|someone else)(?:'s|')?\b(?! \w+ing)": "foreign, external",
    r"\b(?:anew|mends?|mended|mending|thereof|therein|whereof|henceforth|wherein|amiss|lest|hence)\b": "again, fix, in it",
    r"\bin the place of\b": "in place of, replaces",
    r"\bby (?:itself|themselves)\b": "automatically, on its own",
    r"\bhalf a (?:character|word|sign|message|line|event|key)\b": "part of a; an unpaired surrogate",
    r"\ball else\b": "the rest",
    r"\b(?:goes?|went|going) on (?:with|as|from|where|in|under|after|on)\b": "continues",
    r"\bwhere (?:that|this|it|there) (?:is|was) (?:none|not|so|nothing|no)\b": "if not, otherwise",
}  # fmt: skip
COMPILED = {re.compile(pattern): advice for pattern, advice in RULES.items()}
NOT_PROSE = re.compile(r"`[^`]*`|\"[^\"\n]{0,200}\"|“[^”]*”|<[^>\n]*>|\{[^{}\n]*\}|https?://\S+")


def python_prose(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and comments with their lines."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = ast.get_docstring(node, clean=False)
        if docstring is not None:
            yield node.body[0].lineno, docstring
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def markdown_prose(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.S)
    line = 1
    for block in re.split(r"(\n\s*\n)", text):
        yield line, block
        line += block.count("\n")


def pages() -> list[Path]:
    written = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    return sorted([*written, ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md"])


def odd_phrases(path: Path) -> Iterator[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    for first, text in (python_prose if path.suffix == ".py" else markdown_prose)(path):
        flat = re.sub(r"\s", " ", NOT_PROSE.sub(lambda found: "`" * len(found[0]), text))
        for pattern, advice in COMPILED.items():
            for found in pattern.finditer(flat):
                line = first + text[: found.start()].count("\n")
                if "english: ok" not in lines[min(line, len(lines)) - 1]:
                    yield f"{path}:{line}: {found[0]!r}: {advice}"


def test_our_prose_has_none_of_the_odd_phrases() -> None:
    assert [phrase for path in pages() for phrase in odd_phrases(path)] == []


def test_few_lines_are_excused() -> None:
    excused = sum(path.read_text(encoding="utf-8").count("english: ok") for path in pages())
    assert excused <= EXCUSED_MAX


def test_the_rules_find_what_they_are_for(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Whoever asks is told so many words of others.", encoding="utf-8")
    assert len([*odd_phrases(page)]) == 4
