"""What a person typed in a message: its words without everything wrapped, quoted or pasted.

The structure decides, never the meaning. An element, a fence, an indented block and a quotation
show their end; the words around them are the person's own. A shell prompt, the head of a mail,
"Contents of X:" above plain text and a first line with a colon above a title do not: later words
may be typed or pasted, so they are `uncertain`, and only a person can say. So are words between two
elements of one name, because a file can forge both. Neighbours: `sentences` leaves out the sections
that harnesses add, `memory.extraction` takes facts from both parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from refold.patterns import regex

PLAIN_SHARE, PROSE_SHARE = 0.5, 0.8  # of the words of a line; the latter if it ends like code
ELEMENTS_MAX, TAGS_MAX = 200, 1_000  # of one message; tags of one name in an element
SPAN_MAX = 1_000  # characters before and after a tag, for code around it
HEAD_CHARS_MAX = 400  # of a line above a paste; a longer one is text
INLINE_WORDS = 3  # of an element in a sentence, such as <b>never</b>
GAP = "\0"  # in place of a pasted line
QUOTED_WORDS = 4  # of a quotation in a sentence; fewer are a value

PARAGRAPHS = regex(r"\n\s*\n")
_BREAK = regex(r"\r\n?|[\0\v\f\x1c-\x1e\x85\u2028\u2029]")
_COMMENT = regex(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = regex(
    r"[<\[](?P<name>[^\W\d][\w.:-]{0,80})(?P<attributes>[\s=](?:[^<>\[\]\"']|\"[^\"]{0,500}\""
    r"|'[^']{0,500}'){0,500})?(?<!/)[>\]]"
)
_CODE_SPAN = regex(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_FENCE = regex(r"\s*(?:[-*+] +)?(?P<marks>`{3,}|~{3,})(?P<about>[^`\n]*)$")

# The beginning of a log, a trace or a quotation: what follows in its paragraph may belong to it.
_BEGINNING = (
    r"\s*[\[(<]?(?:\d{4}-\d\d-\d\d|\d\d?:\d\d:\d\d)|\s*Traceback \("
    r"|\s*(?:File \"|at \S+ ?\(|>|[\w.]+(?:Error|Exception): )"
)
_PASTED_BEGINNING = regex(_BEGINNING, re.IGNORECASE)
_PASTED_LINE = regex(
    rf"{_BEGINNING}|\s*[\[(<]?(?:(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL|CRITICAL)\b|npm ERR)"
    r"|\s*(?:\{|[\w.]+\(.*\)[:;]?\s*$|[\w.]+ ?[:+]?= ?[\"'\[{(]|\"[\w -]+\": )| {4}|\t|\s*\|",
    re.IGNORECASE,
)
# What does not show its end: a prompt, a diff, a title between rulers or in brackets, a mail.
_OPEN = regex(
    r"\s*(?:[$%❯➜λ] |(?:\([\w.-]+\) )?[\w.-]+@[\w.-]+[^$#%>\n]{0,80}[$#%>] "
    r"|(?:PS )?[A-Za-z]:\\[^>\n]{0,120}> ?|>>> |diff --git|@@ )"
    r"|\s*(?P<mark>[-=#*~_])(?P=mark)+>? ?[^\s=*~_#|-][^|\n]{0,120}?[-=#*~_<]{2,}\s*$"
    r"|\s*[\[(][^\]\n]{0,80}\b(?:file|attach\w*|pasted|document|datei|anhang|fichier|archivo)\b"
    r"[^\]\n]{0,120}[\])]:?\s*$",
    re.IGNORECASE,
)
_MAIL_FIELD = regex(
    r"[\s*_]*(?:from|to|cc|subject|date|sent|reply-to|von|an|betreff|gesendet|datum|de|à|objet"
    r"|envoyé|para|asunto|enviado|fecha)[*_]* ?:[*_]* *\S",
    re.IGNORECASE,
)
# A line that introduces somebody else's text.
_FILE_NAME = r"[`'\"*_(]*(?:[\w.~@-]*[\\/])*[\w@-]*\.?[\w-]+(?:\.\w+)+[`'\"*_)]*"
_INTRODUCTION = regex(
    rf"[\s#*_-]*(?:(?:file|datei|fichier|archivo|path)\W{{1,3}})?{_FILE_NAME} ?:\**\s*$"
    r"|.{0,160}\b(?:contents? of|excerpt|readme|inhalt|auszug|contenu|extrait|contenido|extracto"
    r"|says|said|reads|wrote|writes|schrieb|schreibt|sagte?|a écrit|écrit|dit|escribió|dice|dijo)\b"
    r"[^:\n]{0,120}:\**\s*$"
    r"|\W*(?:(?:here|this|that|these|below)['’]?s? (?:is|are)|here['’]s|hier ist|hier kommt|das ist"
    r"|voici|c['’]est|aquí (?:está|tienes)|est[eao] es)\b.{0,120}\b(?:output|logs?|e?-?mail|message"
    r"|file|document|page|issue|ticket|comment|text|letter|ausgabe|datei|nachricht|seite|sortie"
    r"|fichier|courriel|salida|archivo|correo|mensaje|texto?e?)\b[^:\n]{0,120}:\**\s*$",
    re.IGNORECASE,
)
_TITLE = regex(r"# +\S")
_CODE_LINE = regex(
    r".*[;{}]\s*$|[+-]\S"
    r"|(?:async |export |pub )?(?:def|class|fn|func|import|from|const|let|var|return)\b.*[\w):]$"
)
_PLAIN_WORD = regex(r"[^\w\s]*[^\W\d_]+(?:['’-][^\W\d_]+)*[^\w\s/\\=]*")
_QUOTED = regex(r"[“„«»]([^“”„«»]{8,2000})[”“«»]|(?<![\w\"])\"([^\"]{8,2000})\"(?!\w)")


class Typed(NamedTuple):
    """A person's own words, and words that are theirs or pasted."""

    own: str
    uncertain: str


def typed(text: str, is_rule: Callable[[str], object] = lambda line: False) -> Typed:
    """What a person typed in this message. A block stays below a rule that ends in a colon: the
    rule is about it."""
    text = _COMMENT.sub("", _BREAK.sub("\n", text))
    text = _QUOTED.sub(lambda found: '""' if "\n" in found[0] else found[0], text)
    around, between = _without_elements(text)
    own: list[str] = []
    uncertain = between
    for line, is_own in _lines_left(around.split("\n"), is_rule):
        (own if is_own else uncertain).append(line)
    return Typed(_without_code(own), _without_code(uncertain))


def unquoted(sentence: str) -> str:
    """A sentence without its long quotations, for what its speaker says."""
    if not any(mark in sentence for mark in '"“„«»'):
        return sentence
    return _QUOTED.sub(
        lambda found: found[0] if len(found[0].split()) < QUOTED_WORDS else '""', sentence
    )


def _without_elements(text: str) -> tuple[str, list[str]]:
    """The text around its elements, and the pieces between two elements of one name."""
    own: list[str] = []
    between: list[str] = []
    ended: dict[str, int] = {}  # the pieces before the end of the first element of a name
    start = at = 0
    for _ in range(ELEMENTS_MAX):
        found = _TAG.search(text, at)
        if found is None:
            return "".join([*own, text[start:]]), between
        at, end = found.end(), _element_end(text, found)
        if end < 0:
            return "".join([*own, text[start : found.start()]]), [*between, text[at:]]
        if end:
            own.append(text[start : found.start()])
            first = ended.setdefault(found["name"].lower(), len(own))
            between += own[first:]
            del own[first:]
            start = at = end
    return "".join(own), [*between, text[start:]]


def _element_end(text: str, tag: re.Match[str]) -> int:
    """The end of the element that this tag opens, 0 if it is part of a sentence, -1 if it is never
    closed. Several closing tags end it at the last: the file in it may hold the others."""
    line_start = text.rfind("\n", max(0, tag.start() - SPAN_MAX), tag.start()) + 1
    line_start = line_start or max(0, tag.start() - SPAN_MAX)
    line, _, _ = text[line_start : tag.end() + SPAN_MAX].partition("\n")
    column = tag.start() - line_start
    if any(one.start() < column < one.end() for one in _CODE_SPAN.finditer(line)):
        return 0
    name, end, depth = re.escape(tag["name"]), 0, 1
    same = rf"(?P<opens>[<\[]){name}(?=[\s=>\]])|[<\[]/{name}\s*[>\]]"
    for count, one in enumerate(re.finditer(same, text[tag.end() :], re.IGNORECASE)):
        if count == TAGS_MAX:
            return -1
        if end and one["opens"]:
            break
        depth += 1 if one["opens"] else -1
        end = tag.end() + one.end() if depth <= 0 else end
    is_first = not line[:column].strip()
    if not end:
        is_block = is_first and (tag["attributes"] or line[column:].strip() == tag[0])
        return -1 if is_block and tag[0].startswith("<") else 0
    inner = text[tag.end() : end]
    is_inline = not (is_first or tag["attributes"] or "\n" in inner)
    return 0 if is_inline and len(inner.split()) <= INLINE_WORDS else end


def _lines_left(lines: list[str], is_rule: Callable[[str], object]) -> Iterator[tuple[str, bool]]:
    """The lines outside of fences and pasted parts, `GAP` for a pasted line, and whether each is
    surely the person's own."""
    fences: list[str] = []  # open ones, outermost first
    last, is_kept = "", False  # the last own line; whether the block below it is
    part: Literal["own", "pasted", "introduced", "indented", "foreign", "open"] = "own"
    for at, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence and not fences:
            is_kept = part == "own" and last.rstrip().endswith(":") and bool(is_rule(last))
        if (
            fence
            and fences
            and not fence["about"].strip()
            and fence["marks"].startswith(fences[-1])
        ):
            fences.pop()
        elif fence and (not fences or fence["about"].strip()):
            fences.append(fence["marks"])
        if fence or fences:
            part = "own" if part in ("introduced", "indented", "pasted") else part
            if is_kept:
                last = line
                yield line, True
            continue
        if not line.strip():
            part = "own" if part == "pasted" else "open" if part == "foreign" else part
            yield line, part != "open"
            continue
        is_quoted = line[0] == ">" or unquoted(line.strip()) == '""'
        if part in ("introduced", "indented"):
            part = "indented" if line[0].isspace() else "own" if is_quoted else part
            part = "foreign" if part == "introduced" else part
        if part == "indented" and not line[0].isspace():
            part = "own"
        beside = (lines[at - 1] if at else "", *lines[at + 1 : at + 2])
        is_mail = _MAIL_FIELD.match(line) and any(map(_MAIL_FIELD.match, beside))
        head = line if len(line) <= HEAD_CHARS_MAX else ""
        if part in ("own", "pasted") and (is_mail or _OPEN.match(head)):
            part = "foreign"
        if part in ("indented", "foreign") or _PASTED_LINE.match(line):
            part = "pasted" if part == "own" and _PASTED_BEGINNING.match(line) else part
            yield GAP, part != "open"
            continue
        yield line, part == "own"
        if part == "own":
            following = next(filter(str.strip, lines[at + 1 : at + 3]), "")
            is_document = not last and head.rstrip().endswith(":") and _TITLE.match(following)
            last = line
            if is_document and not is_rule(line):
                part = "foreign"
                continue
            part = "introduced" if _INTRODUCTION.match(head) and not is_rule(line) else part


def _without_code(lines: list[str]) -> str:
    """The paragraphs without pasted lines, and without two lines or more of code."""
    left: list[str] = []
    for paragraph in PARAGRAPHS.split("\n".join(lines)):
        whole = paragraph.split("\n")
        kept = [line for line in whole if line != GAP]
        code = [at for at, line in enumerate(kept) if _is_code(line)]
        is_block = "```" in paragraph or "~~~" in paragraph  # one that stays
        if code and not is_block and len(code) + len(whole) - len(kept) > 1:
            del kept[code[0] : code[-1] + 1]
        left.append("\n".join(kept).strip("\n"))
    return "\n\n".join(filter(str.strip, left))


def _is_code(line: str) -> bool:
    words = line.split()
    plain = sum(bool(_PLAIN_WORD.fullmatch(word)) for word in words)
    if _CODE_LINE.match(line):
        return plain < PROSE_SHARE * len(words)
    is_list = words[:1] in (["-"], ["*"], ["•"])
    return len(words) > 2 and not is_list and plain < PLAIN_SHARE * len(words)
