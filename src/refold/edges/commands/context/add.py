"""`refold context add`: a file is kept with the conversation, and shown to the model."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from refold.edges.commands.command import Arguments, Command
from refold.edges.commands.context.added import Added, added, show
from refold.edges.commands.session import Session
from refold.edges.commands.text import number
from refold.edges.workspace.guarded import guarded, refuse_guarded
from refold.edges.workspace.place import inside
from refold.errors import Invalid
from refold.system.disk import open_regular, os_failure

SIZE_MAX = 20_000_000
FILE = Meta(
    description="The file, from the current folder.",
    extra={"positional": True, "completes": "file"},
)
ANYWHERE = Meta(description="Allow a file outside the current folder.")


class AddArguments(Arguments, frozen=True, kw_only=True):
    file: Annotated[str, FILE]
    anywhere: Annotated[bool, ANYWHERE] = False


def run(session: Session, arguments: AddArguments) -> Added:
    session.check_conversation()
    path, name = inside(arguments.file, anywhere=arguments.anywhere)
    if path.is_dir():
        raise Invalid(f"{name} is a folder", hint="context add-folder shows what is in it")
    if not path.is_file():
        raise Invalid(f"{name} is not a regular file", hint="pipes and devices are not read")
    refuse_guarded(str(path), guarded(session.store))
    content = _content(str(path), name)
    return added(session, content, name=name, type="file")


def _content(path: str, name: str) -> str | bytes:
    """The file's text, or its bytes if it is none; Invalid for one that is too large."""
    try:
        with open_regular(path) as file:
            content = file.read(SIZE_MAX + 1)
    except OSError as error:
        raise os_failure(error, f"cannot read {name}") from error
    if len(content) > SIZE_MAX:
        reason = f"{name} is larger than {number(SIZE_MAX, 'byte')}"
        raise Invalid(reason, hint="add the part that matters, or a search in it")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content


COMMAND = Command(
    name="context add",
    arguments=AddArguments,
    run=run,
    show=show,
)
