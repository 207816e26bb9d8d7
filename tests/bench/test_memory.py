"""The measures of a memory, on data made up here: they read what they should and count as they
say."""

from __future__ import annotations

import pytest
from bench import memory_life, memory_locomo, memory_paths


def life(tmp_path, text: str):
    path = tmp_path / "life.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


TOLD = (
    '{"do": "store", "fact": "key", "content": "Gunilla keeps the spare key", "at": "2024-01-01"}',
    '{"do": "store", "content": "The boat needs paint", "at": "2024-01-02"}',
    '{"do": "store", "content": "It is with Omar", "at": "2024-05-01", "replaces": ["key"]}',
    '{"ask": "Who keeps the spare key?", "expect": "Omar"}',
    '{"ask": "Who keeps the spare key?", "as_of": "2024-02-01", "expect": "Gunilla"}',
)


@pytest.mark.parametrize(("told", "right"), [("never", 1), ("near", 1), ("always", 2)])
def test_a_change_is_told_only_if_that_is_asked_for(tmp_path, told, right):
    path = tmp_path / "told.jsonl"
    path.write_text("\n".join(TOLD), "utf-8")
    answers = memory_life.lived(memory_life.read(path), embedder=False, told=told)
    assert sum(one.is_right for one in answers) == right  # nothing of the change is near
    assert "told, text" in str(memory_life.near_table([path]))


def test_a_life_is_lived_and_judged(tmp_path):
    path = life(
        tmp_path,
        """
{"do": "store", "fact": "port", "content": "The port is 1", "at": "2024-01-01"}
{"do": "update", "fact": "port", "content": "The port is 2", "at": "2024-02-01"}
{"do": "store", "fact": "code", "content": "The code is 7731"}
{"do": "forget", "fact": "code"}
{"ask": "which port?", "expect": "2"}
{"ask": "which port?", "expect": ["1", "9"]}
{"ask": "which port?", "as_of": "2024-01-15", "expect": "1"}
{"ask": "which code?", "forgotten": "7731"}
{"ask": "which port?", "forgotten": "is 2"}
""",
    )
    answers = memory_life.lived(memory_life.read(path), embedder=False)
    assert [one.is_right for one in answers] == [True, False, True, True, False]
    assert len(list(memory_life.misses(answers))) == 4
    [table] = memory_life.run([path])
    assert [row[1] for row in table.rows[:3]] == ["0.500", "1.000", "1"]


@pytest.mark.parametrize(
    "line", ['{"do": "jump"}', '{"ask": "x", "do": "store"}', "{}", "junk", '{"ask": "x", "at": 7}']
)
def test_a_line_that_is_none_is_named(tmp_path, line):
    with pytest.raises(ValueError, match=r"life\.jsonl:1"):
        memory_life.read(life(tmp_path, line))


def test_the_small_life_keeps_its_goals():
    [path] = [one for one in memory_life.files() if one.stem == "life_small"]
    answers = memory_life.lived(memory_life.read(path), embedder=False)
    assert sum(one.is_right for one in answers) >= 40
    assert all(one.is_right for one in answers if one.line.forgotten)


def test_memories_come_first_and_show_a_turn_once():
    pieces = [("a", 10), ("b", 500), ("a", 10), ("c", 10)]
    assert memory_locomo.fitting(pieces, 30) == ({"a", "c"}, 10)
    assert memory_locomo.fitting(pieces, 30, frozenset("a")) == ({"c"}, 20)


def test_hostile_paths_reach_nothing():
    assert memory_paths.hostile_paths() == (0, 0)
