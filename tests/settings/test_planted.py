"""A cloned project brings a `.refold` folder that somebody else filled: links, pipes and folders
under the names of refold's own files. Nothing outside is read or written, and nothing waits."""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
from collections.abc import Iterator
from contextlib import closing
from itertools import count, product
from pathlib import Path
from random import Random

import apsw
import pytest

import refold
from refold.edges.commands.proxy import LOG_FILE
from refold.edges.importers.lines import FOLDER
from refold.errors import OUTCOMES, Corrupt
from refold.memory.ranking import INDEX
from refold.search import database
from refold.search.fingerprints import FORM
from refold.search.fingerprints import NAME as FRONTS
from refold.stores import open_store
from refold.system import disk, sqlite_file
from tests.edges.cli.rooms import run

KINDS = ("link", "dangling link", "link to a folder", "pipe", "folder")
NAMES = (
    *("refold.db", "refold.db-wal", "refold.db-shm", "refold.db-journal", "artifacts", FOLDER),
    *(INDEX, f"{INDEX}-wal", "index.db", FRONTS, "memory", ".gitignore"),
)
HANGS_S = 30


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    project = tmp_path / "project"
    (project / ".refold").mkdir(parents=True, mode=0o700)
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_text("the victim's own\n")
    (tmp_path / "talk.json").write_text('[{"role": "user", "content": "hello there"}]')
    monkeypatch.chdir(project)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("REFOLD_STORE", raising=False)

    def hangs(*_: object) -> None:
        raise AssertionError("it waits for a pipe")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANGS_S)
    yield project
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def plant(path: Path, kind: str, outside: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        names = {"link": "file", "dangling link": "new", "link to a folder": "folder"}
        path.symlink_to(outside / names[kind])


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*"))
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in files}


@pytest.mark.parametrize(
    ("name", "kind", "is_used"),
    [
        *product(NAMES, KINDS, [False]),
        *product((FOLDER, "artifacts", INDEX, "index.db", FRONTS), ("link", "pipe"), [True]),
    ],
)
def test_nothing_below_the_data_folder_leads_out_of_it(
    name: str, kind: str, is_used: bool, project: Path
) -> None:
    talk, outside = project.parent / "talk.json", project.parent / "outside"
    if is_used:
        assert run("import", str(talk), "--id", "before").exit_code == 0
    plant(project / ".refold" / name, kind, outside)
    before = contents(outside)
    old_s = talk.stat().st_mtime - 60
    os.utime(talk, (old_s, old_s))
    for words in (
        ("import", str(talk), "--id", "talk"),
        ("import", str(talk), "--id", "talk"),
        ("memory", "add", "the port is 8080"),
        ("search", "talk", "hello"),
        ("list",),
        ("verify",),
    ):
        done = run(*words)
        assert done.exception is None or isinstance(done.exception, SystemExit), words
    assert contents(outside) == before


@pytest.mark.parametrize("kind", ("link", "dangling link", "pipe"))
def test_a_refused_log_does_not_keep_the_agent_from_its_work(kind: str, project: Path) -> None:
    outside = project.parent / "outside"
    plant(project / ".refold" / LOG_FILE, kind, outside)
    before = contents(outside)
    done = run("run", "touch", "worked")
    assert done.exit_code == 0 and (project / "worked").exists()
    assert "the proxy writes no log" in done.stderr
    assert contents(outside) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
@pytest.mark.parametrize("more", [0, os.O_CREAT, os.O_CREAT | os.O_TRUNC, os.O_CREAT | os.O_APPEND])
def test_only_a_regular_file_is_opened(kind: str, flags: int, more: int, project: Path) -> None:
    outside = project.parent / "outside"
    plant(project / "own", kind, outside)
    before = contents(outside)
    with pytest.raises(disk.Corrupt):
        disk.open_own(str(project / "own"), flags | more)
    with pytest.raises(OSError, match="regular"):
        disk.read_own(str(project / "own"))
    assert contents(outside) == before


# --- databases that somebody else has changed ---

TABLES = {
    "refold.db": ("conversations", "events", "bookmarks"),
    "memory.db": ("facts", "lanes"),
    "index.db": ("conversations", "entries", "facts"),
}
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t"
PLANTED = (
    "DROP TABLE {0}; CREATE VIEW {0} AS " + ENDLESS,
    "CREATE VIEW other AS " + ENDLESS,
    *(
        f"CREATE TRIGGER planted {when} ON {{0}} BEGIN DELETE FROM {{0}}; END"
        for when in ("AFTER INSERT", "BEFORE UPDATE", "AFTER DELETE")
    ),
)


def filled(project: Path) -> Path:
    talk = project.parent / "talk.json"
    for id in ("one", "two"):
        assert run("import", str(talk), "--id", id).exit_code == 0
    assert run("search", "hello").exit_code == 0
    assert run("memory", "add", "the port is 8080").exit_code == 0
    return talk


@pytest.mark.parametrize("statement", PLANTED)
@pytest.mark.parametrize(
    ("file", "table"), [(file, table) for file, names in TABLES.items() for table in names]
)
def test_a_planted_view_or_trigger_never_acts(
    file: str, table: str, statement: str, project: Path
) -> None:
    talk = filled(project)
    path = project / ".refold" / file
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(statement.format(table)).fetchall()
    done = [
        run(*words)
        for words in (("list",), ("import", str(talk), "--id", "three"), ("search", "hello"))
    ]
    if file == "refold.db":
        assert all("that refold did not make" in one.stderr and one.exit_code for one in done)
    else:
        assert not any(one.exit_code for one in done)
        assert run("memory", "list").exit_code == 0


# A clone can bring these in few bytes: they are packed.
LARGE = (
    ("conversations", "title", "printf('%.*c', {0}, 'x')"),
    ("conversations", "parent_chain", "zeroblob({0})"),
    *(("events", name, "zeroblob({0})") for name in ("body", "salt", "digest", "chain")),
    *(("events", f'"{name}"', "printf('%.*c', {0}, 'x')") for name in ("id", "by", "kind")),
    ("bookmarks", "bookmark", "zeroblob({0})"),
)


@pytest.mark.parametrize(("table", "column", "value"), LARGE)
def test_a_planted_value_that_is_too_large_is_damage_and_never_read(
    table: str, column: str, value: str, project: Path
) -> None:
    talk = filled(project)
    path = project / ".refold" / "refold.db"
    with closing(apsw.Connection(str(path))) as connection:
        one = (
            f"UPDATE {table} SET {column} = {value} WHERE rowid = (SELECT min(rowid) FROM {table})"
        )
        connection.execute(one.format(sqlite_file.VALUE_BYTES_MAX + 1)).fetchall()
    for words in (
        ("list",), ("show", "one"), ("show", "two"), ("search", "hello"), ("verify",),
        ("export", "one", "-"), ("import", str(talk), "--id", "three"),
    ):  # fmt: skip
        done = run(*words)
        assert done.exit_code in (0, OUTCOMES[Corrupt.code][1]), (words, done.output)
        assert len(done.output) < 100_000, words


# --- journals that somebody else has left ---

MAGIC = bytes.fromhex("d9d505f920a163d7")
DATABASES = ("refold.db", "memory.db", "index.db", FRONTS, INDEX)


def journal(database: bytes, victim: bytes, records: int) -> bytes:
    """A rollback journal of a database, which ends in the name of the journal of several files."""
    size = int.from_bytes(database[16:18]) or 512
    pages = len(database) // size
    header = MAGIC + struct.pack(">IIIII", records, 0, pages, 512, size)
    kept = b"".join(
        struct.pack(">I", page) + (old := database[(page - 1) * size : page * size])
        + struct.pack(">I", sum(old[size - 200 : 0 : -200]))
        for page in range(1, records + 1)
    )  # fmt: skip
    name = struct.pack(">I", (1 << 30) // size + 1) + victim
    return (
        header.ljust(512, b"\0")
        + kept
        + name
        + struct.pack(">II", len(victim), sum(victim))
        + MAGIC
    )


@pytest.mark.parametrize("records", [0, 1, 2])
@pytest.mark.parametrize("file", DATABASES)
def test_a_journal_that_names_another_file_is_never_played_back(
    file: str, records: int, project: Path
) -> None:
    talk = filled(project)
    path = project / ".refold" / file
    outside = project.parent / "outside"
    before = contents(outside)
    content = path.read_bytes() if path.exists() else b""
    planted = path.with_name(f"{file}-journal")
    victim = (b"../outside/file", b"../../outside/file", bytes(outside / "file"))[records]
    for words in (
        ("checkpoint", "one", "here"),
        ("import", str(talk), "--id", "three"),
        ("search", "hello"),
        ("memory", "add", "the host is red"),
        ("memory", "search", "port"),
        ("show", "one"),
        ("verify",),
    ):
        planted.write_bytes(journal(content, victim, records))
        done = run(*words)
        assert done.exception is None or isinstance(done.exception, SystemExit), words
        assert contents(outside) == before, words
        # A store is refused where it would be written; a derived file is made again.
        if file == "refold.db" and words[0] in ("checkpoint", "import"):
            assert done.exit_code == OUTCOMES["corrupt"][1]
            assert str(planted) in done.stderr and "delete it" in done.stderr
        elif file not in ("refold.db", "memory.db"):
            assert done.exit_code == 0, (words, done.stderr)
    planted.write_bytes(journal(content, victim, records))
    with pytest.raises(sqlite_file.ForeignJournal, match=re.escape(str(planted))):
        sqlite_file.connect(str(path), sqlite_file.WRITE)


@pytest.mark.parametrize("seed", range(40))
def test_only_the_end_of_a_journal_decides(seed: int, tmp_path: Path) -> None:
    """A journal of one file, or a torn one, is what a crash leaves: SQLite recovers from it."""
    random = Random(seed)
    path, planted = tmp_path / "refold.db", tmp_path / "refold.db-journal"
    with closing(sqlite_file.connect(str(path), sqlite_file.CREATE)) as connection:
        connection.execute("CREATE TABLE t(x)")
    whole = journal(path.read_bytes(), b"/x", random.choice([0, 1]))
    length = random.randrange(len(whole))
    planted.write_bytes(whole[:length] if seed else b"")
    link = tmp_path / "link.db"
    link.symlink_to(path)
    for name in (path, link):
        sqlite_file.connect(str(name), sqlite_file.WRITE).close()
    planted.write_bytes(random.randbytes(random.randrange(600)) + MAGIC)
    for name in (path, link):
        with pytest.raises(sqlite_file.ForeignJournal):
            sqlite_file.connect(str(name), sqlite_file.WRITE)


def test_a_database_recovers_from_the_journal_of_a_crash_before_it_had_a_wal(
    tmp_path: Path,
) -> None:
    made, path = tmp_path / "made.db", tmp_path / "refold.db"
    with closing(sqlite_file.connect(str(made), sqlite_file.CREATE)) as connection:
        connection.execute(
            "PRAGMA cache_spill=1; PRAGMA cache_size=1; CREATE TABLE t(x)"
        ).fetchall()
        connection.execute("BEGIN IMMEDIATE; DROP TABLE t").fetchall()
        connection.cache_flush()
        for end in ("", "-journal"):
            shutil.copy(f"{made}{end}", f"{path}{end}")
        connection.execute("ROLLBACK")
    assert (tmp_path / "refold.db-journal").stat().st_size > 0
    with closing(sqlite_file.connect(str(path), sqlite_file.WRITE)) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").get == "t"


# A part of a column's definition that was not there, and what makes a table or index another one.
CLAUSES = (
    "CHECK (body <> 'x')", "DEFAULT 'x'", "COLLATE NOCASE", "UNIQUE", "NOT NULL ON CONFLICT REPLACE",
    "GENERATED ALWAYS AS (upper(kind)) VIRTUAL", "REFERENCES bookmarks", "NOT NULL ON CONFLICT IGNORE",
)  # fmt: skip
OTHERS = (
    "CREATE INDEX more ON {table}({column})", "CREATE TABLE more(x)", "DROP INDEX forks",
    "CREATE UNIQUE INDEX more ON {table}(upper({column}))", "DROP TABLE bookmarks",
    "CREATE TRIGGER more AFTER INSERT ON {table} BEGIN SELECT 1; END",
    "CREATE VIEW more AS SELECT 1", "CREATE VIRTUAL TABLE more USING fts5(x)",
    "ALTER TABLE {table} RENAME COLUMN {column} TO other", "ALTER TABLE {table} ADD COLUMN more ANY",
)  # fmt: skip


def test_a_store_with_another_schema_is_refused(tmp_path: Path) -> None:
    """For a reader or a writer; other layouts of the same SQL, such as that of a migrated database,
    are ours."""
    made, other = tmp_path / "made.db", tmp_path / "refold.db"
    with refold.open("a", store=f"sqlite:{made}") as context:
        context.append({"role": "user", "content": "hello"})
    sqls = tables(made)
    said = r"that refold did not make|has no|not laid out|malformed"
    for at, change in enumerate(changes(sqls)):
        if is_planted(made, other, *change):
            with (
                pytest.raises(Corrupt, match=said),
                closing(open_store(f"sqlite:{other}", read_only=at % 2 == 0)) as store,
            ):
                list(store.conversations())
    spread = sqls["events"].replace(",", " ,\n   ")
    assert is_planted(made, other, "events", spread, "")
    with closing(open_store(f"sqlite:{other}")) as store:
        assert [about.id for about in store.conversations()] == ["a"]


@pytest.mark.parametrize("form", [database.INDEX, FORM], ids=["index", "fronts"])
def test_a_derived_file_with_another_schema_is_made_again(
    form: database.Form, tmp_path: Path
) -> None:
    """The index of a store and that of memories, and the fronts; a reader's copy starts empty."""
    made, other = tmp_path / "made.db", tmp_path / "derived.db"
    database.close(database.connect(str(made), form)[0])
    sqls = tables(made)
    own = sqlite_file.listing(form.schema)
    for at, change in enumerate([*changes(sqls), ("", "", "CREATE TABLE again(x)")]):
        if not is_planted(made, other, *change):
            continue
        if form is database.INDEX and at % 2:
            connection = database.copy(str(other))
        else:
            connection, notice = database.connect(str(other), form)
            assert notice is not None and notice[0] == "index-rebuilt", change
        with closing(connection):
            assert connection.execute(sqlite_file.LISTING).get == own, change
    name, sql = next(iter(sqls.items()))
    assert is_planted(made, other, name, sql.replace(",", " ,\n   "), "")
    connection, notice = database.connect(str(other), form)
    connection.close()
    assert notice is None


def test_one_function_opens_every_sqlite_file() -> None:
    root = Path(refold.__file__).parent
    opening = re.compile(r"apsw\.Connection\(|sqlite3\.connect\(|aiosqlite")
    found = [path.name for path in root.rglob("*.py") if opening.search(path.read_text("utf-8"))]
    assert found == ["sqlite_file.py"]


def tables(made: Path) -> dict[str, str]:
    """The tables of a database and their SQL, after its WAL was put into the file."""
    with closing(apsw.Connection(str(made))) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()
        rows = list(connection.execute("SELECT name, sql FROM sqlite_schema WHERE type='table'"))
    return {name: sql for name, sql in rows if not name.startswith("sqlite")}


def changes(sqls: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Changes of a schema: a table with its new SQL, or a statement. Every column with three of the
    clauses, and everything else at every table."""
    for name, sql in sqls.items():
        columns = re.findall(r'[(,]\s*("?\w+"? (?:INTEGER|TEXT|BLOB|REAL)[^,)]*)', sql)
        for at, one in enumerate(columns):
            for turn in range(3):
                clause = CLAUSES[(3 * at + turn) % len(CLAUSES)]
                yield name, sql.replace(one, f"{one} {clause}"), ""
        first = columns[0].split()[0] if columns else "rowid"
        for other in OTHERS:
            yield name, "", other.format(table=name, column=first)
        for ours, theirs in ((") STRICT", ", CHECK (1)) STRICT"), (" STRICT", ""), ("porter ", "")):
            if ours in sql:
                yield name, sql.replace(ours, theirs), ""


def is_planted(made: Path, other: Path, name: str, sql: str, statement: str) -> bool:
    """Whether the change could be made in a copy of the database."""
    for path in (other, other.with_name(f"{other.name}-wal"), other.with_name(f"{other.name}-shm")):
        path.unlink(missing_ok=True)
    shutil.copy(made, other)
    with closing(apsw.Connection(str(other))) as connection:
        connection.pragma("writable_schema", True)
        if sql:
            connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, name))
        connection.pragma("writable_schema", False)
        try:
            connection.execute(statement).fetchall()
        except apsw.SQLError:
            return False  # not a change that SQLite makes to this table
    os.utime(other, ns=(0, 0))  # the seal of a derived file is as it was
    return True


@pytest.mark.parametrize("id", ["../x", "/etc/x", "a/b", "\x1b[31mx", "nul", "x" * 70, "$(x)"])
def test_a_bad_id_hides_no_other_conversation(id: str, project: Path) -> None:
    filled(project)
    with closing(apsw.Connection(str(project / ".refold/refold.db"))) as connection:
        connection.execute("UPDATE conversations SET id = ? WHERE id = 'one'", (id,))
    assert "two" in run("list").stdout
    for _ in range(2):  # with the index, and while it is made
        assert run("search", "hello").exit_code == 0
        (project / ".refold/index.db").unlink()
    done = run("verify")
    assert done.exit_code and "is not an id" in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr


# --- memories that somebody else has left ---


@pytest.mark.parametrize("scope", ["project", "user"])
def test_memories_of_a_project_are_reported_when_they_are_first_shown(
    scope: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "Always run make test before a commit"
    rule = ("memory", "add", said, "--scope", scope)
    assert run(*rule).exit_code == 0
    where = str(project / ".refold")

    names = map(str, count())

    def reported(store: str | None = None) -> list[str]:
        notices: list[str] = []
        with refold.open(name=next(names), store=store, embedder=False) as context:
            context.on("memory-first-used", lambda notice: notices.append(notice.reason))
            context.append({"role": "user", "content": "Please commit this"})
            shown = said in str(context.request())
        assert shown == (store is None or scope == "user")
        return notices

    first = reported()
    assert len(first) == (scope != "user")
    assert all(where in reason and "refold memory list" in reason for reason in first)
    assert reported() == []
    assert reported(f"sqlite:{project.parent / 'elsewhere.db'}") == []
    # Another user of the same clone, who cannot write anything of the kind down.
    other = project.parent / "other"
    other.write_text("not a folder")
    for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(other))
    if scope != "user":
        assert len(reported()) == len(reported()) == 1
