"""A message and its blob: what goes in comes out, and what is no message cannot block a receiver."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from mantamq.client.message import UNDECODABLE, Message, decode, encode

text = st.none() | st.text(min_size=1)
messages = st.builds(
    Message,
    body=st.binary(),
    subject=text,
    properties=st.none() | st.dictionaries(st.text(), st.integers(-(2**63), 2**63) | st.text(), min_size=1),
    ttl=st.none() | st.floats(0.001, 1e9),
    priority=st.none() | st.integers(1, 9),
    correlation_id=text,
    reply_to=text,
    durable=st.booleans(),
    content_type=text,
    message_id=text,
)
FIELDS = [
    "body", "subject", "properties", "ttl", "priority", "correlation_id", "reply_to", "durable", "content_type",
    "message_id",
]  # fmt: skip


@given(messages)
def test_what_goes_in_comes_out(message):
    back = decode(encode(message))
    assert [getattr(back, name) for name in FIELDS] == [getattr(message, name) for name in FIELDS]


def test_a_plain_body_is_an_array_of_one():
    assert encode(Message(b"x")) == b"\x91\xc4\x01x"


def test_the_array_is_cut_after_the_last_field_that_is_set():
    assert msgspec.msgpack.decode(encode(Message(b"x", subject="s"))) == [b"x", "s"]


def test_text_is_sent_as_utf_8():
    back = decode(encode(Message("Grüße")))
    assert (back.body, back.content_type) == ("Grüße".encode(), "text/plain")


@given(st.binary())
def test_any_bytes_give_a_message(blob):
    back = decode(blob)
    if back.properties == {UNDECODABLE: True}:
        assert back.body == blob
