from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.errors import EXISTS, INVALID, PeerError
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.wiring.definitions import QueueDefinition, check_arguments, check_name, check_same, standard

FIELDS = ("arguments", "durable", "alternate")


def queue(arguments: dict[str, Any], durable: bool = False, alternate: str = "") -> QueueDefinition:
    return QueueDefinition("q#1", "q", arguments, durable, alternate)


def test_a_declaration_agrees_where_all_that_it_names_is_equal() -> None:
    known = queue({"a": 1, "b": [2]}, True, "spare")
    for wanted in (queue({"b": [2], "a": 1}, True, "spare"), queue({"a": 1, "b": [2]}, True)):
        check_same("queue", known, wanted, FIELDS)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (queue({"a": True}), "arguments={'a': 1}"),
        (queue({"a": 1}, durable=True), "durable=False"),
        (queue({"a": 1}, alternate="spare"), "alternate=''"),
    ],
)
def test_a_declaration_that_differs_is_told_what_there_is(wanted: QueueDefinition, said: str) -> None:
    with pytest.raises(PeerError) as error:
        check_same("queue", queue({"a": 1}), wanted, FIELDS)
    assert error.value.code == EXISTS and f"queue 'q' exists with {said}: declare it so" in error.value.text


def test_names_have_bounds() -> None:
    check_name("queue", "ö" * DEFAULT.name_chars)
    for name in ("", "x" * (DEFAULT.name_chars + 1), "a\tb", "\ud800"):
        with pytest.raises(PeerError) as error:
            check_name("queue", name)
        assert error.value.code == INVALID and "a queue's name has" in error.value.text


def test_arguments_are_plain_values_however_deep() -> None:
    check_arguments({"a": [1, 2.5, True, None, b"b", {"c": "d"}]})
    for value in ({"a": [{1: 2}]}, {"a": object()}, {"a": {"b": {3}}}):
        with pytest.raises(PeerError, match=r"arguments are|names of arguments") as error:
            check_arguments(value)
        assert error.value.code == INVALID


def test_which_exchanges_are_the_standards() -> None:
    assert all(standard(name) for name in ("", "amq.topic", "amq.mine"))
    assert not any(standard(name) for name in ("amqp", "mine"))
