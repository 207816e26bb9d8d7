"""Lines are chosen by worth and price."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.strategies.gist.choice import Choice, Kept, choose_lines
from refold.strategies.gist.passages import COMMAND, FILE, SAID, Passage, Shown, passage


def choice(
    lines: list[str], room: float, shown: Shown | None = None, floor: float = 0.0
) -> list[int]:
    """The numbers of the lines that are kept, the most needed first; every name is needed alike."""
    one = passage(7, "tool", "\n".join(lines))
    need = {name: 0.5 for names in one.names for name in names}
    kept = choose_lines([one], need, shown or Shown(), room=room, floor=floor, per_char=0.25)
    return [at for _, at in kept]


def test_the_line_that_tells_most_names_goes_first_and_a_told_name_is_worth_little() -> None:
    lines = [
        "alpha_one and beta_two meet here today",
        "alpha_one alone stands here today",
        "gamma_three is another story here",
    ]
    assert choice(lines, room=24) == [0, 2]


def test_what_the_page_shows_already_is_not_kept_again() -> None:
    shown = Shown()
    shown.add(passage(1, "user", "alpha_one stands on the page already"))
    assert choice(
        ["alpha_one stands on the page already", "beta_two is still to be told here"], 100, shown
    ) == [1]


def requests(*texts: str) -> list[Passage]:
    """Messages of a user, all of them typed."""
    span = [passage(seq, "user", text) for seq, text in enumerate(texts, 1)]
    for one in span:
        one.typed = range(len(one.lines))
    return span


def typed_choice(span: list[Passage], room: float) -> Kept:
    need = dict.fromkeys(all_names(span), 0.1)
    return choose_lines(span, need, Shown(), room=room, floor=0.0, per_char=0.25, typed_share=0.5)


def all_names(span: list[Passage]) -> set[str]:
    return {name for one in span for names in one.names for name in names}


def test_the_first_request_and_then_the_newest_have_their_share_of_the_room() -> None:
    span = requests(*(f"Request number {n} is for the shop." for n in range(4)))
    assert list(typed_choice(span, room=25))[:2] == [(1, 0), (4, 0)]


@given(st.lists(st.text("ab c", min_size=1, max_size=90).map("x ".__add__), max_size=30))
def test_all_that_users_typed_is_kept_where_there_is_room(texts: list[str]) -> None:
    span = requests(*texts)
    kept = typed_choice(span, room=sum(map(len, texts)) + 4 * len(texts) + 10)
    told = {one.lines[at] for one in span for at in range(len(one.lines)) if (one.seq, at) in kept}
    assert told == {line for one in span for line in one.lines}


def test_a_long_request_is_cut_before_a_short_one_goes() -> None:
    long = "\n".join(f"row {n} of what was pasted here" for n in range(200))
    span = requests("Start with the basket.", long, "Then the till.", "No, the door first.")
    kept = typed_choice(span, room=600)
    assert {1, 3, 4} <= {seq for seq, _ in kept}
    assert 20 < sum(seq == 2 for seq, _ in kept) < 200


def test_a_line_below_the_floor_is_left_out_whatever_the_room() -> None:
    assert choice(["alpha_one stands here for everyone to see"], room=1_000, floor=1.0) == []


@given(st.booleans(), st.text("abcdefgh ", min_size=3, max_size=200).filter(str.strip))
def test_of_lines_that_tell_the_same_the_one_that_had_another_beside_it_is_kept(
    alone_last: bool, beside: str
) -> None:
    alone = passage(1 + 2 * alone_last, "tool", "alpha_one was kept on the disk now")
    together = passage(2, "tool", f"alpha_one was read on the disk now\n{beside}")
    span = sorted([alone, together], key=lambda one: one.seq)
    kept = choose_lines(span, {"alpha_one": 0.5}, Shown(), room=200, floor=0.0, per_char=0.25)
    assert next(iter(kept)) == (2, 0)


@given(st.integers(0, 380), st.integers(2_000, 31_000))
def test_a_needed_name_is_kept_wherever_it_stands_on_a_long_line(at: int, chars: int) -> None:
    """A result may have all of its rows on one line."""
    row = "the price of needed_name is four of them"
    place = chars * at // 400
    line = f"{'word ' * (place // 5)}{row}{' word' * ((chars - place) // 5)}"
    one = passage(7, "tool", line)
    kept = choose_lines([one], {"needed_name": 0.5}, Shown(), room=60, floor=0.0, per_char=0.25)
    assert any("needed_name" in line[start:end] for start, end in kept[7, 0])


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(20, 900))
def test_pieces_of_a_line_are_chosen_as_if_all_were_weighed_again(
    numbers: list[int], room: int
) -> None:
    """Of a long line, only pieces that the taken one touches cost less after its first."""

    class Thorough(Choice):
        def _cheaper(self, taken: int, is_first: bool) -> list[int]:
            return super()._cheaper_pieces(taken, True)

    one = passage(7, "tool", " and then it says ".join(f"name_{n} of row" for n in numbers))
    need = {name: 1 / (2 + int(name[5:])) for name in all_names([one])}
    made: list[object] = []
    for kind in (Choice, Thorough):
        choosing = kind([one], need, Shown(), 0.0, 0.25)
        choosing.take_best(choosing.gather(), room)
        made.append(choosing.kept)
    assert made[0] == made[1]


CHAT = ["What is the weather like?", "I was thinking about lunch.", "Do you read much fiction?"]


@given(
    st.lists(st.integers(0, 2), min_size=4, max_size=40),
    st.lists(st.integers(0, 39), min_size=1, max_size=6, unique=True),
    st.integers(20, 400),
)
def test_no_rule_is_kept_without_the_later_one_that_may_replace_it(
    chat: list[int], places: list[int], room: int
) -> None:
    texts = [f"{CHAT[n]} {at}" for at, n in enumerate(chat)]
    rules: list[str] = []
    for n, place in enumerate(sorted(places)):
        rules.append(f"From now on, start the names of counters with 'v{n}_'.")
        texts.insert(min(place + n, len(texts)), rules[-1])
    span = requests("Hello there.", *texts)
    kept = choose_lines(
        span, {}, Shown(), room=room, floor=0.0, per_char=0.25, typed_share=0.5
    ).items()
    lines = {one.seq: one.lines[0] for one in span}
    whole = {lines[seq] for (seq, _), pieces in kept if pieces == [(0, len(lines[seq]))]}
    first = next((n for n, rule in enumerate(rules) if rule in whole), len(rules))
    assert set(rules[first:]) <= whole
    if room >= 30:
        assert rules[-1] in whole


def test_rules_come_before_small_talk_whatever_their_age() -> None:
    chat = [f"{CHAT[n % 3]} {n}" for n in range(60)]
    rule = "Never assume that the server runs in UTC."
    kept = typed_choice(requests("Hello there.", *chat[:3], rule, *chat[3:]), room=40)
    assert next(iter(kept)) == (5, 0)


@given(
    words=st.lists(
        st.text("abcdefghij", min_size=5, max_size=8), min_size=4, max_size=9, unique=True
    ),
    between=st.integers(1, 400),
)
def test_a_line_is_kept_by_its_origin_and_the_newer_one_first(
    words: list[str], between: int
) -> None:
    """Lines without any name: of a file that was read, and of other output."""
    lines = [" ".join([*words, word]) for word in ("first", "later")]
    older, newer = (
        Passage(seq, "tool", [line], [()], origins=FILE)
        for seq, line in zip((1, 1 + between), lines)
    )
    other = Passage(2 + between, "tool", [" ".join([*words, "other"])], [()])
    room = 0.25 * (len(lines[1]) + 12)

    def kept(span: list[Passage], floor: float) -> list[int]:
        chosen = choose_lines(span, {}, Shown(), room=room, floor=floor, per_char=0.25)
        return [seq for seq, _ in chosen]

    assert kept([older, newer, other], 1e-9) == [newer.seq]
    assert kept([other], 1e-9) == []


WORDS = st.lists(st.sampled_from(["please", "keep", "every", "older", "session"]), min_size=8)


@given(words=WORDS, logs=st.integers(1, 40))
def test_a_users_words_come_before_a_pasted_log(words: list[str], logs: int) -> None:
    said = " ".join(words)[:200]
    pasted = [f'{{"time":"15:23:{n:02}","level":"INFO","id":"{n:08x}"}}' for n in range(logs)]
    span = requests("Fix the hooks, please.", said, "\n".join(["it still shows this", *pasted]))
    kept = typed_choice(span, room=100)
    assert {(1, 0), (2, 0), (3, 0)} <= kept.keys()


def test_an_answer_is_kept_though_a_note_of_the_harness_follows_it() -> None:
    answer = "Both migrations ran and nothing else was touched, so a release is possible"
    span = requests("Move the tables.", "And now the release.")
    said = Passage(2, "assistant", [answer], [()], origins=SAID)
    note = passage(3, "user", "<local-command-stdout>Bye!</local-command-stdout>")
    later = Passage(5, "user", *_parts(span[1]), typed=[0])
    kept = typed_choice([span[0], said, note, later], room=200)
    assert (2, 0) in kept


def _parts(one: Passage) -> tuple[list[str], list[tuple[str, ...]]]:
    return one.lines, one.names


@pytest.mark.parametrize("colon", [":", "\uff1a"])
def test_of_two_sentences_the_announcement_of_a_call_goes_first(colon: str) -> None:
    finding = "Stale entries survive because eviction ignores pinned folders entirely"
    announcement = "Perhaps another module handles eviction differently, checking that" + colon
    said = Passage(2, "assistant", [announcement, finding, "command: ls"], [(), (), ()])
    said.origins = SAID + SAID + COMMAND
    kept = choose_lines([said], {}, Shown(), room=24, floor=0.0, per_char=0.25, said_share=0.5)
    assert (2, 1) in kept and (2, 0) not in kept
