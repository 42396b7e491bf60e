"""The wire: golden bytes, two codecs that agree, and bytes from hell."""

from __future__ import annotations

import struct
import tracemalloc
import typing

import msgpack
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mantamq.protocol import errors
from mantamq.protocol.errors import PeerError
from mantamq.protocol.limits import Limits
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import Command, Transfer
from mantamq.protocol.wire.events import Entry, Named, decode_event, encode_event
from mantamq.protocol.wire.framing import HEADER, VERSION, FrameBuffer, encode_frame, encode_onto
from mantamq.protocol.wire.kinds import CLIENT_KINDS, KIND_OF, KINDS
from mantamq.protocol.wire.link_frames import Ping
from mantamq.protocol.wire.log_frames import Append, LogDropped, Request
from mantamq.protocol.wire.majority_frames import Waiting
from mantamq.protocol.wire.queue_frames import Interest, Modification, MoveOrder
from mantamq.protocol.wire.store_frames import Write

numbers = st.integers(0, 2**40)
text = st.text(max_size=8)
blob = st.binary(max_size=20)
free = st.recursive(st.none() | st.booleans() | numbers | text, lambda c: st.lists(c, max_size=3), max_leaves=5)
ENTRY = st.builds(Entry, st.tuples(numbers, numbers), numbers, text, numbers, numbers, blob)
WORDS, MISSING = st.lists(text, max_size=2), st.dictionaries(text, numbers, max_size=2)
WAITING = st.builds(Waiting, text, WORDS, numbers, WORDS, WORDS, MISSING, numbers, text)
MODIFICATION = st.builds(Modification, st.booleans(), st.booleans(), st.dictionaries(text, free, max_size=2))
BY_TYPE = {
    "int": numbers, "str": text, "bytes": blob, "bool": st.booleans(), "Any": free, "str | None": st.none() | text,
    "list[Any]": st.lists(free, max_size=3), "list[int]": st.lists(numbers, max_size=6), "list[bytes]": st.lists(blob, max_size=6), "Ballot": st.tuples(numbers, numbers),
    "dict[str, Any]": st.dictionaries(text, free, max_size=3), "dict[str, str]": st.dictionaries(text, text, max_size=3),
    "list[str] | None": st.none() | st.lists(text, max_size=3), "list[tuple[str, bytes]]": st.lists(st.tuples(text, blob), max_size=3),
    "list[tuple[int, str, bytes]]": st.lists(st.tuples(numbers, text, blob), max_size=3),
    "list[dict[str, Any]] | None": st.none() | st.lists(st.dictionaries(text, free, max_size=2), max_size=2),
    "list[Entry]": st.lists(ENTRY, max_size=3), "list[str]": st.lists(text, max_size=3),
    "Numbers": st.dictionaries(text, st.tuples(numbers, numbers, numbers), max_size=3),
    "list[tuple[str, int, list[int]]]": st.lists(st.tuples(text, numbers, st.lists(numbers, max_size=6)), max_size=2),
    "list[list[int]]": st.lists(st.lists(numbers, max_size=4), max_size=3),
    "list[tuple[int, str, list[int]]]": st.lists(st.tuples(numbers, text, st.lists(numbers, max_size=4)), max_size=3),
    "list[Waiting]": st.lists(WAITING, max_size=2), "dict[str, int]": st.dictionaries(text, numbers, max_size=3),
    "list[tuple[int, list[str]]]": st.lists(st.tuples(numbers, st.lists(text, max_size=2)), max_size=2),
    "list[tuple[int, int, bool]]": st.lists(st.tuples(numbers, numbers, st.booleans()), max_size=2),
    "list[list[str]]": st.lists(st.lists(text, max_size=2), max_size=2),
    "Modification | None": st.none() | MODIFICATION,
    "Named | None": st.none() | st.builds(Named, text, text, st.booleans()),
    "MoveOrder | None": st.none() | st.builds(MoveOrder, text, text, text, text, numbers, text),
}  # fmt: skip


def built(cls):
    return st.builds(cls, **{name: BY_TYPE[cls.__annotations__[name]] for name in cls.__struct_fields__})


any_frame = st.one_of([built(cls) for cls in KINDS.values()])
any_event = st.one_of([built(cls) for cls in typing.get_args(events.AnyEvent)])


@given(any_frame)
def test_every_frame_comes_back(frame):
    assert FrameBuffer().feed(encode_frame(frame)) == [frame]


@given(any_frame, st.sampled_from([1, 3, 20, 10_000]))
def test_a_frame_in_pieces_has_the_same_bytes(frame, large_bytes):
    out = [b"before"]
    encode_onto(frame, out, large_bytes)
    assert b"".join(out) == b"before" + encode_frame(frame)


@pytest.mark.parametrize("size", [0, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("count", [1, 15, 16, 300])
def test_large_values_are_pieces_of_their_own_and_nobody_copies_them(size, count):
    """All headers that msgpack has for bytes and arrays."""
    event = bytes(size)
    entries = [Entry((1, 2), number, "b1.r0", 3, number, event) for number in range(count)]
    append = Append((1, 2), "q#1", 70_000, (1, 2), 5, 4, entries, "b1.r0", 1, ["b1"])
    request, write = Request("b1", 3, 9, [("q#1", event)] * count), Write(5, [(2, "q#1", event)] * count, {"q#1": 7})
    for frame in (append, request, write):
        out = []
        encode_onto(frame, out, max(size, 1))
        assert b"".join(out) == encode_frame(frame)
        assert sum(piece is event for piece in out) == (count if size else 0)


def test_parts_of_a_frame_are_kept_as_they_come():
    """Neither many small parts nor what is left behind a large frame take more memory than came."""
    large, small = encode_frame(Transfer(1, 1, [bytes(1_000_000)])), encode_frame(Transfer(1, 2, [bytes(100_000)]))
    buffer = FrameBuffer()
    tracemalloc.start()
    try:
        for at in range(0, len(large) - 10, 7):
            assert buffer.feed(large[at : min(at + 7, len(large) - 10)]) == []
        assert tracemalloc.get_traced_memory()[0] < 1_500_000
        (whole,) = buffer.feed(large[-10:] + small[:10])
        assert len(whole.blobs[0]) == 1_000_000
        del whole
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
    (last,) = buffer.feed(small[10:])
    assert last.first == 2


@given(any_event)
def test_every_event_comes_back(event):
    assert decode_event(encode_event(event)) == event


@given(st.lists(any_frame, max_size=5), st.lists(st.integers(1, 40), max_size=40))
def test_frames_survive_any_cutting(sent, cuts):
    data = b"".join(map(encode_frame, sent))
    buffer, got = FrameBuffer(), []
    for cut in cuts:
        got += buffer.feed(data[:cut])
        data = data[cut:]
    assert got + buffer.feed(data) == sent


@given(any_frame)
def test_msgpack_and_msgspec_agree(frame):
    """The reference decoder for other languages reads what we write, and we read what it writes."""
    payload = encode_frame(frame)[HEADER.size :]
    plain = msgpack.unpackb(payload, strict_map_key=False)
    packed = msgpack.packb(plain)
    header = HEADER.pack(VERSION, len(packed), KIND_OF[type(frame)])
    assert FrameBuffer().feed(header + packed) == [frame]


def test_golden_bytes():
    """What is on the wire does not change by accident: these bytes are version 1's."""
    assert encode_frame(Ping()) == bytes([1, 0, 0, 0, 1, 6, 0x90])
    transfer = Transfer(3, 7, [b"ab"], None, [0, 1000])
    assert encode_frame(transfer).hex() == "01000000116798030791c4026162c09200cd03e8c09090"
    assert encode_event(events.Own("b2", 5, "b1")).hex() == "9407a2623205a26231"
    assert encode_event(events.Accept("b1", 9, [4, 1, 2])).hex() == "9404a262310993040102"


def test_a_newer_kind_is_skipped_and_newer_fields_too():
    newer = HEADER.pack(VERSION, 3, 250) + b"\x01\x02\x03"
    longer = msgspec.msgpack.encode([*msgspec.to_builtins(Interest("q", "b1", True)), "more"])
    interest = HEADER.pack(VERSION, len(longer), KIND_OF[Interest]) + longer
    assert FrameBuffer().feed(newer + interest + newer) == [Interest("q", "b1", True)]
    assert decode_event(bytes([0x92, 0x7D, 0x01])) is None


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", errors.WRONG_VERSION),
        (HEADER.pack(2, 0, 6), errors.WRONG_VERSION),
        (HEADER.pack(1, 2**31, 6), errors.TOO_LARGE),
        (HEADER.pack(1, 3, 104) + b"\xff\xff\xff", errors.BAD_FRAME),
        (HEADER.pack(1, 1, 104) + b"\x90", errors.BAD_FRAME),
        (HEADER.pack(1, 0, 104), errors.BAD_FRAME),
    ],
)
def test_rules_of_the_wire_are_named(data, code):
    with pytest.raises(PeerError) as error:
        FrameBuffer().feed(data)
    assert error.value.code == code and error.value.text


def test_nesting_is_bounded_long_before_the_stack():
    for depth in (17, 1_000, 200_000):
        payload = b"\x93\x01\xa0" + b"\x81\xa1a" * 1 + b"\x91" * depth + b"\xc0"
        data = HEADER.pack(1, len(payload), KIND_OF[Command]) + payload
        with pytest.raises(PeerError) as error:
            FrameBuffer().feed(data)
        assert error.value.code == errors.BAD_FRAME
    payload = b"\x93\x01\xa0\x81\xa1a" + b"\x91" * 10 + b"\xc0"
    data = HEADER.pack(1, len(payload), KIND_OF[Command]) + payload
    assert len(FrameBuffer().feed(data)) == 1


def test_kinds_that_are_not_allowed_are_refused_and_earlier_frames_survive():
    data = encode_frame(Ping()) + encode_frame(LogDropped("q", "b1"))
    with pytest.raises(PeerError) as error:
        FrameBuffer(kinds=CLIENT_KINDS).feed(data)
    assert error.value.frames == [Ping()]


@settings(max_examples=400)
@given(st.binary(max_size=300))
@example(b"\x92!\xa5\x00\x00\x00\x00\x80")  # a name that is no UTF-8
def test_random_bytes_never_do_more_than_break_a_rule(data):
    try:
        FrameBuffer().feed(data)
    except PeerError:
        pass
    try:
        decode_event(data)
    except PeerError:
        pass


@settings(max_examples=400)
@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=100))
def test_random_payloads_of_every_kind(kind, payload):
    try:
        FrameBuffer().feed(HEADER.pack(VERSION, len(payload), kind) + payload)
    except PeerError as error:
        assert error.code == errors.BAD_FRAME


@settings(max_examples=300)
@given(any_frame, st.data())
def test_a_flipped_byte_is_another_frame_or_a_named_error(frame, data):
    whole = bytearray(encode_frame(frame))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    try:
        FrameBuffer(Limits(frame_bytes=10_000)).feed(bytes(whole))
    except PeerError as error:
        assert error.code in (errors.BAD_FRAME, errors.TOO_LARGE, errors.WRONG_VERSION)


def test_a_length_that_never_comes_costs_no_more_than_what_came():
    buffer = FrameBuffer()
    assert buffer.feed(struct.pack("!BIB", 1, 10_000_000, 6)) == []
    assert buffer.feed(b"x" * 100) == []
