"""The kinds of text, in order: the first that fits wins, else plain. A program may add its own.

The order is from the most to the least specific: a compiler's line looks like a search result, and
a log like nearly anything. Plain text is shown by its first and last lines, and by lines about
errors between them. Neighbours: `sample` has the lines, `stub` shows the excerpt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from msgspec import Struct
from msgspec.structs import replace

from refold.artifacts.kinds import code, runs, structured
from refold.artifacts.kinds.sample import (
    Alike,
    RedactLine,
    Sample,
    Telling,
    around,
    ends,
    excerpt,
    in_turn,
    sample_of,
)


def plain_telling(sample: Sample) -> Iterator[Telling]:
    troubled = sample.troubled
    bad = Alike(sample).distinct(troubled) if troubled else []
    yield from ends(sample, first=3, last=2)
    yield from in_turn(bad[:12], ends(sample, first=15, last=8))
    yield from ends(sample, first=60, last=30)


SEARCH_RESULTS, JSON, PLAIN = "search results", "JSON", "plain"
TELLING_MAX, AROUND_MAX = 500, 10
Fits = Callable[[Sample], bool]
Tell = Callable[[Sample], Iterable[Telling]]
LinesFit = Callable[[Sequence[str]], bool]
"""Given the lines of some text, whether it is of this kind."""
TellingLines = Callable[[Sequence[str]], Iterable[int]]
"""Given the lines of some text, the indices of the most telling ones, from 0, best first."""


class Kind(Struct, frozen=True):
    """The test for a kind of text, its telling lines, best first, and a short description.
    `filled`: remaining room is for the lines around them."""

    fits: Fits
    telling: Tell
    about: Callable[[Sample], str] | None = None
    filled: bool = True


KINDS: dict[str, Kind] = {
    "JSON lines": Kind(structured.json_lines_fits, structured.json_lines_telling),
    "diff": Kind(code.diff_fits, code.diff_telling),
    "test run": Kind(runs.test_run_fits, runs.test_run_telling),
    "log": Kind(runs.log_fits, runs.log_telling),
    "stack trace": Kind(runs.stack_trace_fits, runs.stack_trace_telling),
    "compiler output": Kind(code.compiler_fits, code.compiler_telling),
    SEARCH_RESULTS: Kind(
        structured.search_results_fits,
        structured.search_results_telling,
        structured.search_results_about,
        filled=False,
    ),
    JSON: Kind(structured.json_fits, structured.json_telling, structured.json_about),
    "code": Kind(code.code_fits, code.code_telling),
    "table": Kind(structured.table_fits, structured.table_telling),
}
_PLAIN = Kind(lambda _: True, plain_telling)
_registered: dict[str, Kind] = {}


def register(name: str, fits: LinesFit, telling: TellingLines) -> None:
    """Adds a kind of text, which is tried before all others, or replaces one."""
    _registered[name] = Kind(
        lambda sample: bool(fits(sample.lines)),
        lambda sample: [Telling(at) for at in telling(sample.lines) if 0 <= at < len(sample.lines)],
    )


def kind_of(text: str) -> str:
    """The name of the text's kind, or `plain`."""
    return ClassifiedText(text, lambda _: None).name


class ClassifiedText:
    """Text with its kind and its most telling lines. `failed` receives the error of a registered
    kind; `redact` takes a line and the one before it, and returns it as it may be shown."""

    def __init__(
        self, text: str, failed: Callable[[str], None], redact: RedactLine | None = None
    ) -> None:
        self._redact = redact
        sample = sample_of(text)
        if structured.json_fits(sample):
            sample = replace(structured.parted(sample), files=structured.files_in(text))
        self._sample = sample
        self._failed = failed
        self.name, self._kind = self._chosen()

    def _chosen(self) -> tuple[str, Kind]:
        """The first kind that fits. Items of data can be of fewer kinds than lines, and a few long
        lines of none."""
        candidates: dict[str, Kind] = {}
        match self._sample.unit:
            case "lines" if self._sample.files:
                candidates = {**_registered, SEARCH_RESULTS: KINDS[SEARCH_RESULTS]}
            case "lines":
                candidates = {**_registered, **KINDS}
            case "items":
                candidates = {name: KINDS[name] for name in (SEARCH_RESULTS, JSON)}
            case "pieces":
                pass
        glance = self._sample.glance()
        for name, kind in candidates.items():
            try:
                if kind.fits(self._sample if name in _registered else glance):
                    return name, kind
            except Exception as error:  # noqa: BLE001 - a registered kind is the caller's code
                self._failed(f"kind {name}: {type(error).__name__}: {error}")
        return PLAIN, _PLAIN

    @property
    def about(self) -> str:
        """A short description: the kind's own, or its name."""
        if self._kind.about is not None:
            return self._kind.about(self._sample)
        return "" if self.name == PLAIN else self.name

    def excerpt(self, room: int) -> list[str]:
        """As many of the most telling lines as fit, in text order."""
        try:
            telling = list(islice(self._kind.telling(self._sample), TELLING_MAX))
            beside = around(self._sample, telling[:AROUND_MAX]) if self._kind.filled else ()
            rest = ends(self._sample, 60, 30) if self._kind.filled else ()
            return excerpt(self._sample, chain(telling, beside, rest), room, self._redact)
        except Exception as error:  # noqa: BLE001 - a registered kind is the caller's code
            self._failed(f"kind {self.name}: {type(error).__name__}: {error}")
            return excerpt(self._sample, plain_telling(self._sample), room, self._redact)
