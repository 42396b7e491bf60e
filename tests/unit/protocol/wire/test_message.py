"""A message's encoded form: all of it comes back, its header is read without its body, and bytes from hell are refused."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.errors import INVALID, PeerError
from mantamq.protocol.wire.message import FIELDS, Header, decode, encode, header, with_property

DEFAULTS = dict(zip(FIELDS, (b"", *Header.__struct_defaults__), strict=True))
WHOLE = {
    "body": b"ab", "subject": "a.b", "properties": {"n": 1, "deep": [None, {"x": b"y"}]}, "ttl": 2.5, "priority": 4,
    "correlation_id": "c", "reply_to": "r", "durable": True, "content_type": "text/plain", "message_id": "m",
}  # fmt: skip
GOLDEN = (
    "9a" "c4026162" "a3612e62" "82a16e01a464656570" "92c081a178c40179" "cb4004000000000000" "04" "a163" "a172" "c3"
    "aa746578742f706c61696e" "a16d"
)  # fmt: skip


def blob_of(**fields: Any) -> bytes:
    return encode(SimpleNamespace(**{**DEFAULTS, **fields}))


def fields_of(blob: bytes) -> dict[str, Any]:
    """All fields by both readers, which agree."""
    whole = decode(
        blob, lambda *values: dict(zip(FIELDS, (*values, *[*DEFAULTS.values()][len(values) :]), strict=True))
    )
    found = header(blob)
    headers = {name: getattr(found, name) for name in FIELDS[1:]}
    assert headers == {name: whole[name] for name in FIELDS[1:]}
    assert msgspec.msgpack.decode(found.body) == whole["body"]
    return whole


text = st.none() | st.text()
plain = st.none() | st.text() | st.integers(-(2**63), 2**64 - 1) | st.binary() | st.lists(st.booleans(), max_size=3)
whole = st.fixed_dictionaries(
    {
        "body": st.binary(),
        "subject": text,
        "properties": st.none() | st.dictionaries(st.text(), plain, max_size=20),
        "ttl": st.none() | st.floats(0, 1e9),
        "priority": st.none() | st.integers(0, 9),
        "correlation_id": plain,
        "reply_to": plain,
        "durable": st.booleans(),
        "content_type": plain,
        "message_id": plain,
    }
)


# ---- what is on the wire


def test_golden_bytes():
    """The form does not change by accident: messages of older versions lie in queues, and older clients read ours."""
    assert blob_of(body=b"x") == b"\x91\xc4\x01x"
    assert blob_of(body=b"", subject="") == b"\x92\xc4\x00\xa0"
    assert blob_of(durable=True) == b"\x98\xc4\x00\xc0\xc0\xc0\xc0\xc0\xc0\xc3"
    assert blob_of(**WHOLE).hex() == GOLDEN


def test_the_array_is_cut_after_the_last_field_that_is_set():
    for count in range(1, 11):
        named = dict([*WHOLE.items()][:count])
        values = msgspec.msgpack.decode(blob_of(**named))
        assert values == list(named.values())


@given(whole)
def test_every_field_comes_back(fields: dict[str, Any]):
    assert fields_of(blob_of(**fields)) == fields


@pytest.mark.parametrize("name", FIELDS[1:])
def test_each_field_alone_comes_back(name: str):
    assert fields_of(blob_of(**{name: WHOLE[name]})) == {**DEFAULTS, name: WHOLE[name]}


def test_a_field_that_is_not_plain_is_refused_by_name():
    with pytest.raises(PeerError, match=r"a message's properties\['at'\] is of type tuple") as refused:
        blob_of(properties={"at": (1,)})
    assert refused.value.code == INVALID
    with pytest.raises(PeerError, match="serialise it first"):
        blob_of(body=[1])


@pytest.mark.parametrize("wrong", ["", "none", 5, [], ["a"]])
def test_properties_have_names(wrong: Any):
    """Whoever receives them asks for them by name."""
    with pytest.raises(PeerError, match="a message's properties are a dict of names and values, not ") as refused:
        blob_of(properties=wrong)
    assert refused.value.code == INVALID


# ---- other versions


@given(whole, st.lists(plain, min_size=1, max_size=8))
def test_fields_of_later_versions_are_passed_over(fields: dict[str, Any], later: list[Any]):
    values = [fields[name] for name in FIELDS]
    assert fields_of(msgspec.msgpack.encode([*values, *later])) == fields


# ---- the header alone


@pytest.mark.parametrize("size", [0, 200, 60_000, 4 << 20])
def test_a_header_costs_the_same_whatever_the_body(size: int):
    """Memory counts what is decoded or copied: a body of 4 MiB takes no more of it than none."""
    blob = blob_of(**{**WHOLE, "body": bytes(size)})
    header(blob)
    tracemalloc.start()
    found = header(blob)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3000 and found.priority == 4 and found.properties == WHOLE["properties"]
    assert memoryview(found.body).nbytes - size <= 5, "the body as it lies there, its length before it"


# ---- bytes from hell


def test_a_message_cut_anywhere_is_refused():
    blob = blob_of(**WHOLE)
    for end in range(len(blob)):
        refused(blob[:end])


@given(st.binary())
def test_any_bytes_are_a_message_or_refused(blob: bytes):
    for read in (header, lambda blob: decode(blob, list_of)):
        try:
            read(blob)
        except PeerError as error:
            assert error.code == INVALID


@given(whole, st.data())
def test_a_damaged_message_is_a_message_or_refused(fields: dict[str, Any], data: st.DataObject):
    blob = bytearray(blob_of(**fields))
    blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    for read in (header, lambda blob: decode(blob, list_of)):
        try:
            read(bytes(blob))
        except PeerError as error:
            assert error.code == INVALID


@pytest.mark.parametrize(
    "blob",
    [
        b"", b"x", b"\x90", b"\xc0", b"\x80", b"\x91\xa1x", b"\x91\xc0", b"\x91\x91\xc4\x01x", b"\x91\xc4\x01x\x00",
        b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91\xc6\xff\xff\xff\xff", b"\x92\xc4\x01x\xa1\xff",
        b"\x91" * 100_000 + b"\xc0", b"\x93\xc4\x01x\xc0\x81\xa1a" + b"\x91" * 100_000 + b"\xc0",
        b"\x93\xc4\x01x\xc0\x81\xa1a\x81\x80\x01",
    ],
)  # fmt: skip
def test_no_message_is_refused_and_never_ends_its_reader(blob: bytes):
    refused(blob)


@pytest.mark.parametrize(
    "values",
    [
        [b"x", 5], [b"x", None, "no map"], [b"x", None, {5: 1}], [b"x", None, None, "soon"],
        [b"x", None, None, None, "high"], [b"x", None, None, None, 1.5],
        [b"x", None, None, None, None, None, None, "yes"],
    ],
)  # fmt: skip
def test_a_header_that_brokers_cannot_act_upon_is_refused(values: list[Any]):
    """A receiver gets such a message as it is: its application may know what was meant."""
    blob = msgspec.msgpack.encode(values)
    with pytest.raises(PeerError):
        header(blob)
    assert decode(blob, list_of) == values


def list_of(*values: Any) -> list[Any]:
    return [*values]


def refused(blob: bytes) -> None:
    with pytest.raises(PeerError) as one:
        header(blob)
    with pytest.raises(PeerError) as other:
        decode(blob, list_of)
    assert one.value.code == other.value.code == INVALID


@pytest.mark.parametrize("fields", [{}, {"subject": "s"}, {"properties": {}}, WHOLE, WHOLE | {"properties": None}])
def test_one_more_property_and_all_else_as_it_was(fields: dict[str, Any]):
    blob = blob_of(**fields)
    stamped = with_property(blob, "seq", 7)
    wanted = {**DEFAULTS, **fields, "properties": {**(fields.get("properties") or {}), "seq": 7}}
    assert stamped == blob_of(**wanted)
    assert with_property(stamped, "seq", 8) == blob_of(**wanted | {"properties": {**wanted["properties"], "seq": 8}})


def test_fields_of_later_versions_stay_behind_one_more_property():
    later = [*msgspec.msgpack.decode(blob_of(**WHOLE)), {"new": [1, b"x"]}]
    assert msgspec.msgpack.decode(with_property(msgspec.msgpack.encode(later), "seq", 7)) == [
        *later[:2], {**later[2], "seq": 7}, *later[3:],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "blob",
    [
        b"", b"raw", b"\x90", b"\x91\x01", b"\x91\xa1a", b"\xc1", b"\x92\xc4", b"\x93\xc4\x00\xc0\x01",
        b"\x93\xc4\x00\xc0\x81\x01\x02", b"\x93\xc4\x00\xc0" + b"\x81\xa1a" * 100_000 + b"\xc0",
    ],
)  # fmt: skip
def test_what_is_no_message_gets_no_property(blob: bytes):
    assert with_property(blob, "seq", 7) == blob
