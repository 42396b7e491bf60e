from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.wiring.topics import TopicIndex

words = st.sampled_from(["a", "b", "", "#", "*"])
patterns = st.lists(words, min_size=1, max_size=6).map(".".join)
keys = st.lists(words, min_size=1, max_size=6).map(".".join)


def naive(pattern: list[str], key: list[str]) -> bool:
    """The definition, word by word."""
    if not pattern:
        return not key
    head, *rest = pattern
    if head == "#":
        return any(naive(rest, key[skip:]) for skip in range(len(key) + 1))
    return bool(key) and head in ("*", key[0]) and naive(rest, key[1:])


def matches(pattern: str, key: str) -> bool:
    index = TopicIndex()
    index.add(pattern, "it")
    return index.match(key) == ["it"]


def test_a_star_is_exactly_one_word_and_a_hash_any_number() -> None:
    assert matches("JFK.*.AA", "JFK.LAX.AA")
    assert not matches("JFK.*.AA", "JFK.AA")
    assert not matches("JFK.*", "JFK.LAX.AA")
    assert matches("JFK.#", "JFK")
    assert matches("#.late", "late")
    assert matches("#.late", "JFK.LAX.AA.late")
    assert not matches("#.late", "JFK.LAX.AA.later")
    assert matches("#", "")
    assert matches("", "")
    assert matches("*", "")  # the empty key is one empty word
    assert not matches("*.*", "")
    assert matches("a.#.#.b", "a.b")


def test_wildcards_in_a_key_are_plain_words() -> None:
    assert not matches("a.b", "a.*")
    assert not matches("a.b", "a.#")
    assert matches("a.*", "a.#")


@given(pattern=patterns, key=keys)
def test_matches_as_defined(pattern: str, key: str) -> None:
    assert matches(pattern, key) == naive(pattern.split("."), key.split("."))


@given(many=st.lists(patterns, max_size=12), key=keys)
def test_many_patterns_at_once_are_each_as_alone(many: list[str], key: str) -> None:
    index = TopicIndex()
    for number, pattern in enumerate(many):
        index.add(pattern, str(number))
    found = index.match(key)
    assert len(found) == len(set(found))
    assert set(found) == {str(n) for n, pattern in enumerate(many) if naive(pattern.split("."), key.split("."))}


def test_hostile_patterns_do_not_explode() -> None:
    index = TopicIndex()
    index.add(".".join(["#", "*"] * 60 + ["end"]), "alternating")
    index.add(".".join(["#"] * 120 + ["end"]), "hashes")
    index.add(".".join(["#", "a"] * 60 + ["end"]), "words")
    started = time.perf_counter()
    assert index.match(".".join(["a"] * 127)) == []
    assert time.perf_counter() - started < 2.0
