"""Every key begins with what a distributed engine places rows by, and no statement needs rows of
two places: read from the schema and the statements themselves. Needs no server and no driver."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import refold
from refold.stores.postgres import schema, statements

ROOT = Path(refold.__file__).parent / "stores" / "postgres"
TABLE = re.compile(rf"CREATE TABLE {schema.NAME}\.(\w+)\((.*?)\n\)", re.DOTALL)
TABLES = dict(TABLE.findall(schema.TABLES))
STATEMENTS = {name: value for name, value in vars(statements).items() if name.isupper() and not name.startswith("_") and name != "NAME"}  # fmt: skip
WALKS_OVER_AN_ORG = {"LIST", "MARKS", "SIZE", "AUTHORS", "POSTINGS", "ENTRIES"}
MODULES = sorted(path for path in ROOT.glob("*.py") if path.name not in ("schema.py", "statements.py"))  # fmt: skip


def columns_of(table: str) -> list[str]:
    types = r"(?:text|bytea|bigint|boolean|tsvector|double)\b"
    return re.findall(rf"(?:^|,)\s*(\w+) {types}", TABLES[table])


def tables_in(statement: str) -> list[tuple[str, str]]:
    """The tables that a statement names, with their aliases."""
    named = rf"{schema.NAME}\.(\w+)(?:\([^)]*\)|\s+(?!SET|WHERE|ON|LEFT|FOR|ORDER)(\w+)\b)?"
    return re.findall(named, statement)


def to_the_end_of_its_clause(text: str) -> str:
    """A part of a statement, up to the parenthesis in which it stands."""
    depth = 0
    for at, sign in enumerate(text):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth < 0:
            return text[:at]
    return text


def test_there_are_tables_and_statements() -> None:
    assert {"conversations", "events", "contents", "chunks"} <= set(TABLES)
    assert len(STATEMENTS) > 20


@pytest.mark.parametrize("table", TABLES)
def test_every_key_begins_with_the_org_and_then_the_conversation(table: str) -> None:
    columns = columns_of(table)
    placed_by = ["org", "conversation"] if "conversation" in columns else ["org", "digest"]
    assert columns[:2] == placed_by
    [key] = re.findall(r"PRIMARY KEY \(([^)]*)\)", TABLES[table])
    assert [name.strip() for name in key.split(",")][:2] == placed_by
    assert "UNIQUE" not in TABLES[table]


def test_there_is_no_other_unique_index_and_no_sequence() -> None:
    every = schema.TABLES + "".join(schema.STEPS.values())
    for unique in re.findall(r"CREATE UNIQUE INDEX[^(]*\(([^)]*)\)", every):
        assert unique.replace(" ", "").split(",")[0] == "org"
    assert not re.search(r"serial|IDENTITY|SEQUENCE|REFERENCES|jsonb?", every, re.IGNORECASE)


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_crosses_two_places(name: str) -> None:
    statement = STATEMENTS[name]
    tables = tables_in(statement)
    assert tables
    second = "digest" if "digest" in columns_of(tables[0][0])[:2] else "conversation"
    for column in ("org", second):
        if column == second and name in WALKS_OVER_AN_ORG:
            continue
        assert f"%({column})s" in statement, f"{name} does not name its {column}"
    # Reading and changing is bound by equality, wherever a table is named.
    for found in re.finditer(rf"(?:FROM|UPDATE|JOIN) {schema.NAME}\.", statement):
        clause = to_the_end_of_its_clause(statement[found.start() :])
        assert re.search(r"\borg = %\(org\)s", clause), f"{name}: {clause}"
        if name not in WALKS_OVER_AN_ORG:
            assert re.search(rf"\b{second} = %\({second}\)s", clause), f"{name}: {clause}"
    for join in re.findall(r"JOIN (.*?)WHERE", statement, re.DOTALL):
        assert f"e.org = c.org AND e.{second} = c.{second}" in join


@pytest.mark.parametrize("name", STATEMENTS)
def test_values_are_bound_and_tables_are_named_in_full(name: str) -> None:
    statement = STATEMENTS[name].replace("''", "")
    assert "'" not in statement, "a text is written into the statement"
    for table in TABLES:
        assert not re.search(rf"(?:FROM|INTO|UPDATE|JOIN) {table}\b", statement)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_statements_about_our_tables_stand_in_one_place(path: Path) -> None:
    texts = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert [text for text in texts if re.search(r"\b(FROM|INTO|UPDATE) (?!pg_)\w+\.", text)] == []
    assert not any(schema.NAME in text for text in texts)


def test_every_table_stands_behind_the_wall() -> None:
    assert sorted(schema._WALLED) == sorted(TABLES)
    for table in TABLES:
        assert f"{schema.NAME}.{table} FORCE ROW LEVEL SECURITY" in schema.walls(schema.NAME)


def test_every_version_has_its_step() -> None:
    assert sorted(schema.STEPS) == list(range(1, schema.VERSION))
    assert f"refold_{schema.VERSION}" == schema.NAME
