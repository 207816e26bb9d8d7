"""A field of a command's arguments becomes the option or argument that its type says."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import click
import pytest
from msgspec import Meta, field

from refold.edges.cli.options import parameters
from refold.edges.commands import COMMANDS, load
from refold.edges.commands.command import Arguments, Command, Result, Screen
from refold.edges.commands.session import Session


class Sample(Arguments, frozen=True, kw_only=True):
    place: Annotated[str, Meta(extra={"positional": True, "metavar": "DIR"})]
    level: Annotated[str, Meta(extra={"positional": True})] = "high"
    names: Annotated[tuple[str, ...], Meta(extra={"positional": True})] = ()
    owner: Annotated[str, Meta(description="Required.")]
    dry_run: Annotated[bool, Meta(description="A flag.")] = False
    whole: Annotated[bool, Meta(description="Renamed.", extra={"short": "-w"})] = field(
        name="all", default=False
    )
    limit: Annotated[int, Meta(description="A range.", ge=1, le=9)] = 5
    age: Annotated[float, Meta(description="May be missing.", ge=0)] | None = None
    kind: Annotated[Literal["a", "b"], Meta(description="A choice.")] | None = None
    tags: Annotated[tuple[str, ...], Meta(description="Repeated.")] = ()
    writer: Annotated[str, Meta(description="x", extra={"bare": "usual"})] | None = None


def sample(on: Literal["conversation", "store", "nothing"]) -> Command[Sample, Result]:
    def run(session: Session, arguments: Sample) -> Result:
        raise NotImplementedError

    def show(result: Result, screen: Screen) -> None:
        raise NotImplementedError

    return Command(name="list", on=on, arguments=Sample, run=run, show=show)


def parsed(*args: str) -> Any:
    """What the command line gives the command."""
    given: dict[str, Any] = {}
    command = click.Command("x", params=[*parameters(sample("nothing"))], callback=given.update)
    command.main([*args, "--owner", "me"], standalone_mode=False)
    return Sample(**given)


def test_what_is_not_given_has_the_default_of_its_field() -> None:
    assert parsed("here") == Sample(place="here", owner="me")


def test_every_kind_of_field_can_be_given() -> None:
    given = ("here", "low", "a", "b", "--dry-run", "--all", "--limit", "9", "--age", "1.5")
    more = ("--kind", "b", "--tags", "x", "--tags", "y", "--writer")
    assert parsed(*given, *more) == Sample(
        place="here",
        owner="me",
        level="low",
        names=("a", "b"),
        dry_run=True,
        whole=True,
        limit=9,
        age=1.5,
        kind="b",
        tags=("x", "y"),
        writer="usual",
    )
    assert parsed("here", "-w").whole


@pytest.mark.parametrize(
    "given",
    [(), ("x", "--limit", "10"), ("x", "--limit", "y"), ("x", "--age", "-1"), ("x", "--kind", "c")],
)
def test_what_a_field_does_not_take_is_refused(given: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError):
        parsed(*given)


def test_an_option_without_a_default_must_be_given() -> None:
    command = click.Command("x", params=[*parameters(sample("nothing"))])
    with pytest.raises(click.MissingParameter, match="owner"):
        command.main(["here"], standalone_mode=False)


def test_the_help_names_arguments_and_shared_options() -> None:
    usage = click.Command("x", params=[*parameters(sample("conversation"))])
    text = usage.get_help(click.Context(usage))
    assert (
        "ID DIR [LEVEL] [NAMES]..." in text
        and "--store URL" in text
        and "[default: 5; 1<=x<=9]" in text
    )


def test_only_what_works_on_a_store_takes_one() -> None:
    for on, expected in (("conversation", True), ("store", True), ("nothing", False)):
        names = {one.name for one in parameters(sample(on))}  # type: ignore[arg-type]
        assert ("store" in names) is expected
        assert ("conversation" in names) is (on == "conversation")


@pytest.mark.parametrize("number", ["nan", "-nan", "NaN", "inf", "-inf", "Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused_by_every_option_that_takes_one(number: str) -> None:
    """No limit is reached by what is compared with it."""
    options = [
        (name, one)
        for name in COMMANDS
        for one in parameters(load(name))
        if isinstance(one.type, click.FloatRange)
    ]
    assert {"chat --cost-max", "delete --older-than", "show --seconds"} <= {
        f"{name} {one.opts[0]}" for name, one in options
    }
    for _, one in options:
        with pytest.raises(click.BadParameter, match=r"finite|range"):
            one.type.convert(number, one, None)
