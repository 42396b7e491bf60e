from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.wiring.definitions import Binding, ExchangeDefinition
from mantamq.protocol.wiring.exchanges import Exchange


def exchange(type: str, *bindings: tuple[str, str]) -> Exchange:
    one = Exchange(ExchangeDefinition("e", type, {}))
    for queue, key in bindings:
        assert one.bind(Binding("e", queue, key, {}))
    return one


@pytest.mark.parametrize(
    ("type", "key", "found"),
    [
        ("fanout", "anything", ["a", "b", "b"]),
        ("direct", "news", ["a", "b"]),
        ("direct", "#", ["b"]),
        ("direct", "old", []),
        ("topic", "news", ["a", "b"]),
        ("topic", "old", ["b"]),
        ("headers", "old", ["a", "b", "b"]),
    ],
)
def test_an_exchange_finds_queues_by_its_type(type: str, key: str, found: list[str]) -> None:
    one = exchange(type, ("a", "news"), ("b", "news"), ("b", "#"))
    assert sorted(set(one.bound(key, {}))) == sorted(set(found))


@pytest.mark.parametrize("type", ["direct", "topic"])
def test_the_index_follows_the_bindings(type: str) -> None:
    one = exchange(type, ("a", "k"))
    assert one.bound("k", {}) == ["a"]
    assert one.bind(Binding("e", "b", "k", {})) and sorted(one.bound("k", {})) == ["a", "b"]
    assert one.unbind("a", "k") and one.bound("k", {}) == ["b"]
    assert one.unbind("b") and one.bound("k", {}) == []


def test_the_same_binding_twice_is_one_and_its_arguments_tell_it_from_others() -> None:
    one = exchange("headers")
    mine: list[dict[str, Any]] = [{"x-match": "any", "a": 1, "b": 2}, {"b": 2, "a": 1, "x-match": "any"}]
    assert [one.bind(Binding("e", "q", "", arguments)) for arguments in mine] == [True, False]
    assert one.bind(Binding("e", "q", "", {"x-match": "any", "a": True, "b": 2}))
    assert len(one.bindings) == 2
    assert one.bound("", {"b": 2}) == ["q", "q"] and one.bound("", {"c": 3}) == []


def test_unbind_takes_a_key_or_all_keys_and_says_whether_there_were_any() -> None:
    one = exchange("direct", ("a", "k"), ("a", "l"), ("b", "k"))
    assert not one.unbind("a", "m") and not one.unbind("c")
    assert one.unbind("a", "k") and [binding.key for binding in one.bindings.values()] == ["l", "k"]
    assert one.unbind("a") and [binding.queue for binding in one.bindings.values()] == ["b"]
