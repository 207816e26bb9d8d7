"""Exact counts: OpenAI's vocabularies to the token, bounded on bad input, late to load."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import splintr
from hypothesis import given
from hypothesis import strategies as st

from refold.errors import Invalid
from refold.tokens import exact
from refold.tokens.exact import PIECE_CHARS, VOCABULARIES, Vocabulary, nearest, vocabulary

O200K, CL100K = vocabulary("o200k"), vocabulary("cl100k")


def package_tokenizer(name: str) -> Any:
    """The package's own tokenizer for a vocabulary."""
    return splintr.Tokenizer.from_pretrained(VOCABULARIES[name])


ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)
PROSE = "The log only grows, and the page is folded from it; it's never cut in two.\n"


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    # Counted with tiktoken 0.14.0 and the ranks that it pins.
    [
        ("", [], []),
        ("hello world", [24912, 2375], [15339, 1917]),
        ("tiktoken is great!", [83, 8251, 2488, 382, 2212, 0], [83, 1609, 5963, 374, 2294, 0]),
        ("antidisestablishmentarianism", 6, 6),
        ("<|endoftext|>", 7, 7),
        ("数据库连接失败，请检查配置文件并重新启动服务。", 12, 14),
        ("def f(x):\n\treturn x+1  # ok\r\n", 12, 12),
        ("I'ſ've 'ſa don'ſt", 11, 14),
        ("\0\x07\x1b[0m", 6, 5),
    ],
)
def test_the_tokens_are_those_of_openai(
    text: str, o200k: int | list[int], cl100k: int | list[int]
) -> None:
    """Issue 4: o200k and cl100k exact offline; what looks like a special token is text."""
    for one, expected in ((O200K, o200k), (CL100K, cl100k)):
        found = one.encode(text)
        assert (found if isinstance(expected, list) else len(found)) == expected
        assert one.count(text) == len(found)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4o", "o200k"),
        ("gpt-4.1-mini", "o200k"),
        ("gpt-5", "o200k"),
        ("o3", "o200k"),
        ("gpt-oss-120b", "o200k"),
        ("gpt-4", "cl100k"),
        ("gpt-4-turbo", "cl100k"),
        ("gpt-4-0613", "cl100k"),
        ("gpt-3.5-turbo", "cl100k"),
        ("gpt-35-turbo", "cl100k"),
        ("gemini-2.5-pro", "gemma"),
        ("deepseek-chat", "deepseek"),
        ("Qwen3-8B", "qwen"),
        ("ministral-8b-latest", "mistral"),
        ("mixtral-8x7b", "mistral"),
        ("kimi-k2", "kimi"),
        ("glm-4.5", "glm"),
        ("llama-3.3-70b", "llama"),
        ("claude-sonnet-4-5", "o200k"),
        ("grok-4", "o200k"),
        ("", "o200k"),
    ],
)
def test_a_model_has_its_own_vocabulary_or_the_nearest(model: str, name: str) -> None:
    """Y-04: implementations for OpenAI, Anthropic, Gemini; where none is published, the nearest."""
    assert nearest(model) == name


@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_vocabulary_counts_offline(name: str) -> None:
    """Y-04: nothing is downloaded, encode and decode are each other's inverse."""
    text = "The quick brown fox, 4711 çà 数据\n"
    assert vocabulary(name).decode(vocabulary(name).encode(text)) == text
    assert 10 <= vocabulary(name).count(text) <= 25


@given(ANY_TEXT)
def test_what_is_encoded_comes_back(text: str) -> None:
    """Y-04: decode(encode(x)) == x, with U+FFFD for what no request can carry."""
    sent = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    alone = "".join("\ufffd" if "\ud800" <= sign <= "\udfff" else sign for sign in text)
    assert O200K.decode(O200K.encode(text)) in (alone, sent)
    assert (O200K.count(text) > 0) == bool(text)


@pytest.mark.parametrize(
    "tokens", [[10**8], [-1], [10**30], ["a"], O200K.encode("\U00013000")[:-1]]
)
def test_what_is_no_token_is_refused(tokens: list[int]) -> None:
    """Bad input is named: numbers beyond the vocabulary, half a character."""
    with pytest.raises(Invalid, match="o200k"):
        O200K.decode(tokens)


# --- bad input: bounded and never an error ---


@pytest.mark.parametrize("name", ["o200k", "cl100k"])
@pytest.mark.parametrize(
    ("text", "tokens_max"),
    [
        (" " * 1_000_000, 20_000),
        ("a" * 1_000_000, 250_000),
        ("A" * 1_000_000, 250_000),
        ("\n" * 1_000_000, 500_000),
        ("=" * 1_000_000, 100_000),
        ("0" * 1_000_000, 333_400),
        ("ab" * 500_000, 500_000),
        ("中" * 300_000, 600_000),
        ("\0" * 1_000_000, 1_000_000),
        ("\ud800" * 100_000, 300_000),
        ("<|endoftext|>" * 50_000, 400_000),
    ],
    ids=[
        "spaces",
        "a",
        "A",
        "newlines",
        "equals",
        "zeros",
        "ab",
        "han",
        "nul",
        "surrogates",
        "special",
    ],
)
def test_a_million_equal_characters_are_counted(name: str, text: str, tokens_max: int) -> None:
    """Y-111: one repeated letter makes some tokenizers quadratic, a million spaces make some
    panic."""
    assert 0 < vocabulary(name).count(text) <= tokens_max


class Recorder:
    """Stands for the package: notes how long the texts are that it is given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def encode_flat(self, text: str) -> bytes:
        self.sizes.append(len(text))
        return bytes(4 * len(text))

    def special_tokens(self) -> list[str]:
        return ["<|endoftext|>"]


@pytest.mark.parametrize("text", ["a" * 500_000, PROSE * 5_000, "é'ſ" * 100_000, " " * PIECE_CHARS])
def test_no_piece_is_longer_than_the_limit_and_nothing_is_lost(text: str) -> None:
    """Y-111: time and memory are bounded because pieces are, whatever the package does with one."""
    one, package = Vocabulary("o200k"), Recorder()
    one.__dict__["_tokenizer"] = package
    assert one.count(text) == sum(package.sizes) == len(text)
    assert max(package.sizes) <= PIECE_CHARS


def test_a_line_of_ten_megabytes_is_counted() -> None:
    """Y-111: in pieces that end where a word ends, so that the count is that of the parts."""
    line = PROSE.replace("\n", " ")
    assert len(line) * 140_000 > 10_000_000
    # A piece more or less changes nothing: each repetition has the same tokens.
    assert O200K.count(line * 140_000) == pytest.approx(
        140_000 * (O200K.count(line * 11) - O200K.count(line)) / 10, abs=2
    )


@pytest.mark.parametrize(
    "text", [PROSE * 3_000, PROSE.replace("\n", " ") * 3_000, "x = call(1)\n" * 20_000]
)
def test_a_text_cut_into_pieces_counts_as_the_whole(text: str) -> None:
    """Issue 4: cuts lie where the vocabulary splits anyhow. The package itself is asked for the
    whole."""
    assert len(text) > 2 * PIECE_CHARS
    for one in (O200K, CL100K):
        assert one.count(text) == len(package_tokenizer(one.name).encode_ordinary(text))


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_count_is_the_number_of_tokens_whatever_stands_in_the_text(name: str) -> None:
    """What looks like a special token is text, also to the call that only counts."""
    one = vocabulary(name)
    specials = sorted(package_tokenizer(name).special_tokens())
    alike = ["<|", "<", "[", "a < b | c", "x" * 300, "[INST", "</s", "\ud800<|endoftext|>"]
    for text in ("", *specials, *alike, " ".join(specials)):
        for whole in (text, f"so {text}!", f"{text}\n{text}"):
            assert one.count(whole) == len(one.encode(whole)), whole


@given(st.text(max_size=40), st.sampled_from(sorted(VOCABULARIES)))
def test_a_count_is_the_number_of_tokens(text: str, name: str) -> None:
    assert vocabulary(name).count(text) == len(vocabulary(name).encode(text))


@pytest.mark.parametrize("text", ["\ud800", "a\udc00b", "\ud83d", "x" * 70_000 + "\ud800"])
def test_a_lone_surrogate_counts_as_the_sign_that_is_sent(text: str) -> None:
    """Y-02: tokenizers refuse them; a request shows U+FFFD."""
    shown = text.replace("\ud800", "\ufffd").replace("\udc00", "\ufffd").replace("\ud83d", "\ufffd")
    assert O200K.count(text) == O200K.count(shown) > 0


def test_threads_share_a_vocabulary() -> None:
    """A `Context` may be shared by threads: every one gets the same counts."""
    fresh, texts = Vocabulary("o200k"), [PROSE * n for n in range(1, 60)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fresh.count, texts)) == [O200K.count(text) for text in texts]


# --- late and light ---


def test_nothing_is_loaded_before_the_first_count() -> None:
    """Section 8 of the design: import everything late."""
    code = (
        "import sys; from refold.tokens.counter import counter_for; count = counter_for(None, 'gpt-4o');"
        "print(count.name, 'splintr' in sys.modules, count('hello world'), 'splintr' in sys.modules)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert shown.split() == ["o200k", "False", "2", "True"]


def test_an_unknown_vocabulary_is_refused() -> None:
    """Bad input is named, with what there is."""
    with pytest.raises(Invalid, match="p50k") as caught:
        vocabulary("p50k")
    assert "o200k" in caught.value.hint


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Y-04: who asks for a vocabulary itself is told what to install."""
    monkeypatch.setitem(sys.modules, exact.PACKAGE, None)
    with pytest.raises(exact.Unavailable, match="extra exact") as caught:
        Vocabulary("o200k").count("hello")
    assert "refold[exact]" in caught.value.hint
