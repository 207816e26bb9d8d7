"""Where a folder of memories lies: one place per scope, with the visible tree and what is beside
it.

    PLACE/memories/    what the model sees as /memories
    PLACE/staging/     files on their way in or out, empty between two changes
    PLACE/history.db   every change, and artifacts/ with the contents
    PLACE/lock         held while something changes

Nothing of ours is inside the tree, so no name of the model can clash with it. The scope `user` lies
in the user's own data folder, `project` and `agent.NAME` in the `.refold` folder of the project.
Neighbours: `tree` works in a place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from refold.checked import quoted
from refold.core.codec import conversation_checked
from refold.errors import Denied, Invalid
from refold.memory.files import descriptors
from refold.memory.files.path import ROOT
from refold.settings.sources import project_folder
from refold.settings.trust import data_folder
from refold.system import disk

SCOPES = ("user", "project", "agent.NAME")
LOCK_S = 10.0


def place_of(scope: str, environ: Mapping[str, str] | None = None) -> Place:
    """The place of a scope."""
    kind, _, name = scope.partition(".")
    if scope == "user":
        data = data_folder(os.environ if environ is None else environ)
        return Place(str(data / "refold" / "memory" / scope))
    if scope == "project" or (kind == "agent" and name):
        conversation_checked(name or scope)
        memory = project_folder() / "memory"
        return Place(str(memory / scope), plain=(str(memory), str(memory / scope)))
    raise Invalid(f"scope={quoted(scope)} is not a scope", hint=f"one of {', '.join(SCOPES)}")


class Place:
    """The files of one folder of memories. `plain` are folders on the way that may not be links:
    a project comes from others, who would say where memories are read and written."""

    def __init__(self, folder: str, *, plain: tuple[str, ...] = ()) -> None:
        disk.check_name(folder)
        if not folder or os.path.expanduser(folder).startswith("~"):
            raise Invalid(f"folder={quoted(folder, 200)} is not a folder", hint="give its path")
        self.folder = os.path.abspath(os.path.expanduser(folder))
        self.tree = os.path.join(self.folder, "memories")
        self._staging = os.path.join(self.folder, "staging")
        history = os.path.join(self.folder, "history")
        self.history = f"sqlite:{history}.db"
        self._plain = (*plain, f"{history}.db", f"{history}.artifacts")

    def check(self) -> None:
        """Denied if a link stands where only a file or folder of ours may be."""
        if any(map(os.path.islink, self._plain)):
            raise Denied(f"Error: A link leads away from the place of {ROOT}")

    def make(self) -> None:
        """Makes the place and its folders, for the owner alone."""
        for folder in (self.tree, self._staging):
            if not os.path.islink(folder):
                disk.make_folder(folder)

    @contextmanager
    def locked(self) -> Iterator[int]:
        """A descriptor of the staging folder, while nobody else changes anything here."""
        self.check()
        self.make()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(os.path.join(self.folder, "lock"), flags, descriptors.FILE_MODE)
        with disk.closing(lock):
            disk.lock(lock, ROOT, wait_s=LOCK_S)
            with disk.closing(self._opened_staging()) as staging:
                descriptors.clear(staging)
                yield staging

    def _opened_staging(self) -> int:
        try:
            return os.open(self._staging, descriptors.FOLDER)
        except NotADirectoryError as error:
            raise Denied(f"Error: the staging folder of {ROOT} is a link") from error
