"""Messages at both ends of a client: what goes in comes out, and what is no message cannot block a receiver."""

from __future__ import annotations

import inspect

from hypothesis import given
from hypothesis import strategies as st
from mantamq.client.books.receiver import ReceiverCore
from mantamq.client.books.sender import SenderCore
from mantamq.client.message import UNDECODABLE, Message
from mantamq.protocol.wire.client_frames import Delivery, Transfer
from mantamq.protocol.wire.message import FIELDS

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


def sent(message: Message) -> bytes:
    """The blob that a sender puts on the wire."""
    frames: list[Transfer] = []
    SenderCore(1, "q", False, False, 10, 1 << 20, frames.append).put(message)  # type: ignore[arg-type]
    (blob,) = frames[0].blobs
    return blob


def received(*blobs: bytes) -> list[Message]:
    """The messages that a receiver makes of a delivery."""
    core = ReceiverCore(1, "q", 10, True, lambda frame: None)
    core.delivered(Delivery(1, 1, [1, len(blobs)], [*blobs]))
    return [message for _ in blobs if (message := core.fetch()) is not None]


@given(messages)
def test_what_goes_in_comes_out(message: Message):
    (back,) = received(sent(message))
    assert [getattr(back, name) for name in FIELDS] == [getattr(message, name) for name in FIELDS]


def test_a_message_takes_the_fields_of_the_wire_in_their_order():
    assert tuple(inspect.signature(Message).parameters) == FIELDS


def test_text_is_sent_as_utf_8():
    (back,) = received(sent(Message("Grüße")))
    assert (back.body, back.content_type) == ("Grüße".encode(), "text/plain")


@given(st.binary())
def test_any_bytes_give_a_message(blob: bytes):
    (back,) = received(blob)
    if back.properties == {UNDECODABLE: True}:
        assert back.body == blob


def test_a_blob_that_is_no_message_does_not_block_the_ones_behind_it():
    nested = b"\x91" * 100_000 + b"\xc0"
    one, two, three = received(b"foreign", nested, sent(Message(b"x")))
    assert (one.body, one.properties, two.body, two.properties) == (
        b"foreign",
        {UNDECODABLE: True},
        nested,
        one.properties,
    )
    assert (three.body, three.properties, three.position) == (b"x", None, 3)
