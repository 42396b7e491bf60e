"""What is sent arrives as exactly what it was, or is refused when it is sent."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import uuid
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.client import Invalid, Message
from mantamq.client.books.plain import copied
from mantamq.client.books.sender import SenderCore
from mantamq.protocol.wire.message import decode, encode

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False) | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def types_of(value):
    if type(value) is dict:
        return {key: types_of(item) for key, item in value.items()}
    return [types_of(item) for item in value] if type(value) is list else type(value)


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_plain_values_come_as_they_were(properties):
    got = decode(encode(Message(b"x", properties=properties)), Message).properties
    assert got == properties and types_of(got) == types_of(properties)


class Colour(enum.IntEnum):
    RED = 1


class Name(str):
    pass


@dataclass
class Point:
    x: int = 1


circle: list = []
circle.append(circle)

ODD = [
    datetime.datetime(2026, 1, 2, 3, 4), datetime.datetime.now(datetime.UTC), datetime.date(2026, 1, 2),
    datetime.timedelta(1), {1, 2}, frozenset(), (1, 2), uuid.UUID(int=1), decimal.Decimal("1.5"), Colour.RED, Name("x"),
    Point(), bytearray(b"x"), collections.OrderedDict(a=1), 1 << 64, -(1 << 63) - 1, object(), {1: "int key"},
    {b"bytes": 1}, {"deep": [{"er": {(1, 2): 3}}]}, [datetime.date(2026, 1, 2)], circle, 1 + 2j, range(3),
]  # fmt: skip


def put(**fields):
    """Send a message with these fields."""
    SenderCore(1, "q", False, False, 10, 1000, lambda frame: None).put(Message(b"x", **fields))


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_what_would_be_changed_is_refused_and_named(odd):
    with pytest.raises(Invalid, match="properties"):
        put(properties={"fine": 1, "odd": odd})
    with pytest.raises(Invalid, match="correlation_id"):
        put(correlation_id=odd)
    with pytest.raises(Invalid, match="the arguments"):
        copied({"odd": odd}, "the arguments")


def test_the_text_says_where_and_what_to_do():
    with pytest.raises(Invalid, match=r"properties\['at'\]\[1\] is of type datetime, .* send None, bool, int"):
        put(properties={"at": [1, datetime.datetime(2026, 1, 2)]})
    with pytest.raises(Invalid, match=r"key 7, of type int: keys are str"):
        put(properties={7: 1})
    with pytest.raises(Invalid, match=r"2\*\*64"):
        put(properties={"n": 1 << 64})
