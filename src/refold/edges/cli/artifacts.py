"""`refold artifacts`: the outputs that are kept, what they hold, which of their lines match, and
removing them.

Outputs are named by id, and only in the conversation that has them. `clean` says what it would
remove with --dry-run; `delete` asks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from refold.edges.cli.options import (
    HELP,
    command,
    confirm,
    conversation_argument,
    end_with_damage,
    named,
    opened_store,
    output_options,
    store_option,
    tell_damage,
    yes_option,
)
from refold.edges.cli.screen import Screen, number, one_line

if TYPE_CHECKING:
    from refold.artifacts.artifacts import Artifacts
    from refold.artifacts.cleanup import Cleanup, CleanupItem
    from refold.artifacts.listing import StoredArtifact
    from refold.artifacts.reader import ArtifactReader

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
BYTES = {"": 1, "b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([a-z]{0,2})", re.IGNORECASE)


def _amount(
    kind: str, units: dict[str, int]
) -> Callable[[click.Context, click.Parameter, str | None], float | None]:
    """Reads a number with a unit: `30d`, `1.5 MB`."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        found = _AMOUNT.fullmatch(value.strip())
        unit = found[2].lower() if found else ""
        if found is None or unit not in units:
            known = ", ".join(f"10{name}" for name in units if name)
            raise click.BadParameter(
                f"{one_line(value, 40)!r} is not a {kind} such as {known}", ctx, param
            )
        return float(found[1]) * units[unit]

    return read


@click.group("artifacts", context_settings=HELP, invoke_without_command=True)
@click.pass_context
def artifacts_(ctx: click.Context) -> None:
    """Lists, shows, searches and removes stored outputs."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for _decorate in output_options:
    artifacts_ = _decorate(artifacts_)


class Stored(NamedTuple):
    """A stored conversation's artifacts, and the reader of their contents."""

    id: str
    artifacts: Artifacts
    reader: ArtifactReader


@contextmanager
def _outputs(conversation: str, url: str | None) -> Iterator[Stored]:
    """The outputs of a conversation that is there already; NotFound if it is not."""
    from refold.artifacts.artifacts import Artifacts
    from refold.artifacts.reader import ArtifactReader
    from refold.config import Config
    from refold.log.open_log import OpenLog

    with opened_store(url) as store:
        log = OpenLog(store, store.conversation(named(store, conversation)).id, Config())
        reader = ArtifactReader(log)
        yield Stored(log.id, Artifacts(log, reader), reader)


# --- list ---


@command(
    "list",
    conversation_argument,
    click.option("--task", help="Only those of this task."),
    click.option("--query", help="Only those of this query: its text, or its q_ id."),
    click.option("--tool", help="Only those of this tool."),
    click.option(
        "--match",
        metavar="WORDS",
        help="Only those that these words need, best first, with the reason.",
    ),
    store_option,
)
def _list(
    screen: Screen,
    conversation: str,
    task: str | None,
    query: str | None,
    tool: str | None,
    match: str | None,
    store: str | None,
) -> None:
    """Lists the outputs of a conversation; contents are not read."""
    with _outputs(conversation, store) as there:
        outputs = there.artifacts.list(task=task, query=query, tool=tool)
        rows = [(one, "") for one in outputs]
        if match is not None:
            rows = [(one.artifact, one.why) for one in there.artifacts.select(match, among=outputs)]
        if screen.json_output:
            fields = [{**_fields(one), "why": why} for one, why in rows]
            screen.emit({"conversation": there.id, "artifacts": fields})
        elif rows and match is not None:
            screen.table(("ID", ">BYTES", "NAME", "WHY"), [_match_cells(*row) for row in rows])
        elif rows:
            screen.table(
                ("ID", ">SEQ", ">BYTES", ">LINES", "TYPE", "TASK", "NAME"),
                [_cells(one) for one, _ in rows],
            )
        else:
            screen.line(f"There are no such outputs in {there.id}.")


def _fields(output: StoredArtifact) -> dict[str, Any]:
    import msgspec

    about = msgspec.to_builtins(output.artifact)
    return {
        **about,
        "seq": output.seq,
        "at_ms": output.at_ms,
        "by": output.by,
        "cleaned_ms": output.cleaned_ms,
    }


def _match_cells(output: StoredArtifact, why: str) -> list[str]:
    return [output.id, f"{output.artifact.size_bytes:,}", output.artifact.name, why]


def _cells(output: StoredArtifact) -> list[str]:
    from refold.display import moment

    artifact = output.artifact
    gone = f"[cleaned up {moment(output.cleaned_ms)}] " if output.cleaned_ms else ""
    return [
        artifact.id,
        f"#{output.seq}",
        f"{artifact.size_bytes:,}",
        f"{artifact.lines:,}",
        artifact.type,
        artifact.origin.task,
        f"{gone}{artifact.name}",
    ]


# --- show, grep ---


@command(
    "show",
    conversation_argument,
    click.argument("artifact", metavar="ARTIFACT"),
    click.option("--lines", metavar="A-B", help="Only these lines, counted from 1."),
    store_option,
)
def _show(
    screen: Screen, conversation: str, artifact: str, lines: str | None, store: str | None
) -> None:
    """Shows what an output holds, whole or by lines."""
    from refold.edges.cli.showing import _span

    first, last = _span(lines) or (1, -1)
    with _outputs(conversation, store) as there:
        found = there.reader.original(artifact)
        texts = _lines(found.texts, first, last)
        if screen.json_output:
            screen.emit({"conversation": there.id, "handle": found.handle, "text": "".join(texts)})
            return
        for text in texts:
            screen.text(text)
        screen.line()


def _lines(texts: Iterator[str], first: int, last: int) -> Iterator[str]:
    from refold.log.unfold import lines_between

    if (first, last) == (1, -1):
        yield from texts
    else:
        yield lines_between(texts, first, None if last == -1 else last).text


@command(
    "grep",
    conversation_argument,
    click.argument("pattern", metavar="PATTERN"),
    click.argument("artifact", metavar="[ARTIFACT]", required=False),
    click.option("--regex", "-e", is_flag=True, help="The pattern is a regular expression."),
    click.option("--ignore-case", "-i", is_flag=True, help="Upper and lower case are the same."),
    click.option(
        "--limit",
        type=click.IntRange(1, 1_000),
        default=50,
        show_default=True,
        help="How many lines at most.",
    ),
    click.option(
        "--wait",
        type=click.FloatRange(0.1, 60.0),
        default=10.0,
        show_default=True,
        help="Seconds at most.",
    ),
    store_option,
)
def _grep(
    screen: Screen,
    conversation: str,
    pattern: str,
    artifact: str | None,
    regex: bool,
    ignore_case: bool,
    limit: int,
    wait: float,
    store: str | None,
) -> None:
    """Finds the lines of the outputs that hold a text."""
    with _outputs(conversation, store) as there:
        found = there.artifacts.grep(
            pattern, artifact or "", regex=regex, ignore_case=ignore_case, limit=limit, wait_s=wait
        )
    lines = [(one.handle, line.number, line.text) for one in found for line in one.grepped.lines]
    ended = "; ".join(one.grepped.ended for one in found if one.grepped.ended)
    if screen.json_output:
        rows = [{"artifact": handle, "line": at, "text": text} for handle, at, text in lines]
        screen.emit({"conversation": there.id, "lines": rows, "ended": ended})
        return
    for handle, at, text in lines:
        screen.line(("cyan", f"{handle}:{at}: "), text)
    if ended or not lines:
        screen.line(
            (
                "yellow",
                f"{number(len(lines), 'line')} found"
                + (f"; {ended}, there may be more." if ended else "."),
            )
        )


# --- clean ---


@command(
    "clean",
    click.argument("conversation", metavar="[ID]", required=False),
    click.option(
        "--older-than",
        metavar="TIME",
        callback=_amount("time", SECONDS),
        help="Remove what is older: 30d, 12h.",
    ),
    click.option(
        "--keep-bytes",
        metavar="SIZE",
        callback=_amount("size", BYTES),
        help="Remove the oldest until so much is left: 100MB.",
    ),
    click.option(
        "--keep-count", type=click.IntRange(min=0), help="Remove the oldest until so many are left."
    ),
    click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing."),
    store_option,
)
def _clean(
    screen: Screen,
    conversation: str | None,
    older_than: float | None,
    keep_bytes: float | None,
    keep_count: int | None,
    dry_run: bool,
    store: str | None,
) -> None:
    """Removes old outputs of a conversation, or of all.

    Never removes what a page shows or names, what was stored by hand, or what is new.
    """
    from refold.artifacts.cleanup import Quota, clean
    from refold.log.log import now_ms

    size = None if keep_bytes is None else int(keep_bytes)
    quota = Quota(older_than_s=older_than, keep_bytes=size, keep_count=keep_count)
    with opened_store(store) as there:
        id = None if conversation is None else named(there, conversation)
        done = clean(there, quota, conversation=id, now_ms=now_ms(), dry_run=dry_run)
    if screen.json_output:
        rows = {
            name: [_item_fields(item) for item in getattr(done, name)]
            for name in ("removed", "kept")
        }
        screen.emit(
            {"dry_run": dry_run, "size_bytes": done.size_bytes, **rows, "damaged": done.damaged}
        )
    else:
        _print(screen, done, "would be removed" if dry_run else "removed")
        tell_damage(screen, done.damaged)
    end_with_damage(done.damaged)


def _item_fields(item: CleanupItem) -> dict[str, Any]:
    return {
        "id": item.artifact.id,
        "name": item.artifact.name,
        "size_bytes": item.artifact.size_bytes,
        "at_ms": item.at_ms,
        "conversations": list(item.conversations),
        "why": item.why,
    }


def _print(screen: Screen, done: Cleanup, verb: str) -> None:
    for mark, items in (("- ", done.removed), ("  ", done.kept)):
        for item in items:
            screen.line(
                ("cyan", f"{mark}{item.artifact.id} "),
                one_line(f"{item.artifact.name}: {item.why}", 200),
            )
    kept = f", {number(len(done.kept), 'output')} over the bounds had to stay" if done.kept else ""
    screen.line(f"{number(len(done.removed), 'output')} {verb} ({done.size_bytes:,} bytes){kept}.")


# --- delete ---


@command(
    "delete",
    conversation_argument,
    click.argument("artifact", metavar="ARTIFACT"),
    yes_option,
    store_option,
)
def _delete(screen: Screen, conversation: str, artifact: str, yes: bool, store: str | None) -> None:
    """Removes one output for good, also one that the page names.

    Its bytes stay if another conversation has it. The log keeps what it was.
    """
    with _outputs(conversation, store) as there:
        confirm(screen, f"Remove {one_line(artifact, 40)} from {there.id} for good?", yes)
        done = there.artifacts.remove(artifact)
        left = there.reader.count()
    if screen.json_output:
        screen.emit({"removed": _item_fields(done), "left": left})
    else:
        screen.line(f"{done.artifact.id} is removed, {done.why}; {number(left, 'output')} left.")


for _command in (_list, _show, _grep, _clean, _delete):
    artifacts_.add_command(_command)
