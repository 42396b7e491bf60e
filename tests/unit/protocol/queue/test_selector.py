"""Selectors: their grammar, their errors, three-valued logic, and what they say of any message."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mantamq.client import Message
from mantamq.protocol.errors import PeerError
from mantamq.protocol.queue import like as like_module
from mantamq.protocol.queue.like import like
from mantamq.protocol.queue.selector import selector
from mantamq.protocol.queue.selector_grammar import CHARS, DEPTH
from mantamq.protocol.wire.message import encode

MESSAGE: dict[str, Any] = {
    "n": 5, "half": 0.5, "big": 1 << 60, "colour": "red", "yes": True, "no": False, "empty": "", "raw": b"red",
    "list": [1], "null": None, "x-y": 7, "priority": "mine", "it's": "o'clock",
}  # fmt: skip
BLOB = encode(Message(b"body", subject="s", properties=MESSAGE, priority=7, correlation_id="c1", message_id=b"m"))


def says(text: str, blob: bytes = BLOB) -> bool | None:
    """What a selector says of a message: True, False or, if neither it nor its opposite is true, None."""
    yes, no = selector(text)(blob), selector(f"NOT ({text})")(blob)
    assert not (yes and no)
    return True if yes else (False if no else None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n > 3 AND colour = 'red'", True),
        ("n = 5", True), ("n = 5.0", True), ("n <> 5", False), ("n < 5", False), ("n <= 5", True), ("n >= 5.5", False),
        ("half = .5", True), ("half = 5e-1", True), ("half = 0.5f", True), ("n = 5L", True), ("n = 5.", True),
        ("colour = 'blue'", False), ("colour <> 'blue'", True), ("colour > 'blue'", None), ("n = '5'", None),
        ("yes = TRUE", True), ("yes <> false", True), ("yes < true", None), ("yes = 1", None), ("yes", True),
        ("no", False), ("nobody", None), ("colour", None), ("n", None), ("not yes", False), ("TRUE", True),
        ("FALSE", False), ("raw = 'red'", None), ("list = 1", None), ("raw IS NULL", False), ("list is not null", True),
        ("nobody IS NULL", True), ('"null" IS NULL', True), ("n IS NOT NULL", True), ("nobody = nobody", None),
        ("n + 1 = 6", True), ("n - 1 * 2 = 3", True), ("(n - 1) * 2 = 8", True), ("n / 2 = 2", True), ("-n / 2 = -2", True),
        ("n / 2.0 = 2.5", True), ("n / 0 = 1", None), ("half / 0 = 1", None), ("- - n = +5", True), ("n + 'a' = 1", None),
        ("n + nobody = 1", None), ("big * big * big / half > 1", True), ("1e308 * 10 > 1", True),
        ("n BETWEEN 5 AND 6", True), ("n NOT BETWEEN 5 AND 6", False), ("n BETWEEN 6 AND 9", False),
        ("n BETWEEN 1 AND nobody", None), ("n BETWEEN 6 AND nobody", False), ("colour BETWEEN 'a' AND 'z'", None),
        ("colour IN ('red', 'blue')", True), ("colour IN ('blue')", False), ("colour NOT IN ('blue')", True),
        ("n IN ('5')", None), ("n IN (1, 5, 'a')", True), ("n IN (1, 'a')", None), ("nobody IN ('a')", None),
        ("n NOT IN (1, 2)", True), ("yes IN (1)", None),
        ("colour LIKE 'r%'", True), ("colour LIKE '_e_'", True), ("colour NOT LIKE 'r'", True), ("n LIKE '5'", None),
        ("empty LIKE '%'", True), ("empty LIKE ''", True), ("empty LIKE '_'", False), ("nobody NOT LIKE 'a'", None),
        ("'10%' LIKE '10!%' ESCAPE '!'", True), ("'101' LIKE '10!%' ESCAPE '!'", False),
        ("subject = 's'", True), ("JMSType = 's'", True), ("priority = 7", True), ("JMSPriority > 6", True),
        ('"priority" = \'mine\'', True), ('"x-y" = 7', True), ('"it\'s" = \'o\'\'clock\'', True),
        ("correlation_id = 'c1'", True), ("JMSCorrelationID = 'c1'", True), ("message_id IS NOT NULL", True),
        ("reply_to IS NULL", True), ("ttl IS NULL", True), ("durable", False), ("JMSDeliveryMode = 'NON_PERSISTENT'", True),
        ("JMSXGroupID IS NULL", True), ("ANDROID IS NULL AND notes IS NULL AND order_ IS NULL AND _x$.y IS NULL", True),
        ("n = 4 OR n = 5 and colour = 'red'", True), ("(n = 4 OR n = 5) and colour = 'blue'", False),
        ("not n = 4 and n = 5", True), ("\n n\t=\r\n5 ", True),
    ],
)  # fmt: skip
def test_what_it_says(text, expected):
    assert says(text) is expected


NAMED = {True: "yes", False: "no", None: "nobody"}


@pytest.mark.parametrize(("a", "b"), list(itertools.product((True, False, None), repeat=2)))
def test_the_truth_tables(a, b):
    values = (a, b)
    both = False if False in values else (None if None in values else True)
    either = True if True in values else (None if None in values else False)
    assert says(f"{NAMED[a]} AND {NAMED[b]}") is both
    assert says(f"{NAMED[a]} OR {NAMED[b]}") is either
    assert says(f"NOT {NAMED[a]}") is (None if a is None else not a)


def test_without_a_priority_it_is_the_middle_one():
    blob = encode(Message(b""))
    assert says("priority = 4 AND JMSPriority = 4", blob) is True


@pytest.mark.parametrize("blob", [b"", b"no message", b"\x91\x01", b"\x92\xc4\x00\x05", b"\xc1", BLOB[:-3]])
def test_what_cannot_be_read_has_no_properties(blob):
    assert says("n = 5 OR colour <> 'red'", blob) is None and says("n IS NULL", blob) is True


@pytest.mark.parametrize(
    ("text", "column", "word"),
    [
        ("n >", 4, "it ends where a name, a number, a text"), ("n > 3 AND", 10, "it ends"), ("", 1, "it ends"),
        ("n > 3 colour", 7, "AND, OR or the end"), ("n = 'abc", 5, "has no end"), ("a # b", 3, "means nothing"),
        ('n = "abc', 5, "single quotes"), ("a IS 3", 6, "NULL or NOT NULL"), ("a NOT 3", 7, "BETWEEN, IN or LIKE"),
        ("a LIKE 3", 8, "a text"), ("a LIKE 'x' ESCAPE 'ab'", 19, "one character"), ("a LIKE 'x' ESCAPE ''", 19, "one"),
        ("a LIKE 'x!' ESCAPE '!'", 20, "write it twice"), ("a LIKE 'x!y' ESCAPE '!'", 21, "write it twice"),
        ("a IN 3", 6, "parentheses"), ("a IN ()", 7, "a name"), ("(a = 1", 7, ")"), ("a = 1)", 6, "no ( before it"),
        ("a BETWEEN 1 OR 2", 13, "AND"), ("a = b = c", 7, "AND, OR"), ("12abc = 3", 3, "comparison"), ("a != 3", 3, "'!'"),
        ("a == 3", 4, "a name"), ("NULL = 1", 1, "a name"), ("a = and", 5, "a name"), ("x = 1 AND JMSTimestamp > 3", 11, "JMST"),
    ],
)  # fmt: skip
def test_an_error_names_the_column_and_what_to_write(text, column, word):
    with pytest.raises(PeerError) as caught:
        selector(text)
    assert caught.value.code == "invalid"
    if text != "a == 3":
        assert f"at column {column}:" in caught.value.text
    assert word in caught.value.text


def test_it_is_bounded():
    with pytest.raises(PeerError, match=rf"at most {CHARS} characters, this one 10001"):
        selector("(" * 10_000 + "a")
    for deep in ("(" * 2000 + "a" + ")" * 2000, "NOT " * 1000 + "a", "-" * 3000 + "1 = 1"):
        with pytest.raises(PeerError, match=f"nests at most {DEPTH} deep"):
            selector(deep)
    assert selector("(" * (DEPTH - 1) + "yes" + ")" * (DEPTH - 1))(BLOB)
    assert selector(" OR ".join(f"n = {i}" for i in range(370)))(BLOB)
    assert selector("n = 5" + " + 1 - 1" * 500)(BLOB)
    assert selector("NOT " * (DEPTH - 2) + "yes")(BLOB)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(), st.text(max_size=5), st.binary(max_size=3),
    st.lists(st.integers(0, 3), max_size=2),
)  # fmt: skip
MESSAGES = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda properties, subject, priority, id: encode(
            Message(b"x", subject=subject, properties=properties, priority=priority, correlation_id=id)
        ),
        st.none() | st.dictionaries(st.sampled_from("abcd"), VALUES),
        st.none() | st.text(max_size=3), st.none() | st.integers(-5, 20), VALUES,
    ),
)  # fmt: skip
WORDS = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            "c",
            "d",
            "1",
            "2.5",
            ".5e308",
            "99999999999999999999",
            "'x'",
            "'a%'",
            "''",
            "(",
            ")",
            "=",
            "<>",
            "<",
            "<=",
            ">",
            ">=",
            "+",
            "-",
            "*",
            "/",
            "AND",
            "OR",
            "NOT",
            "BETWEEN",
            "IN",
            "LIKE",
            "ESCAPE",
            "IS",
            "NULL",
            "TRUE",
            "FALSE",
            ",",
            "subject",
            "priority",
            "JMSCorrelationID",
        ]
    ),
    max_size=14,
).map(" ".join)
_LEAF = st.sampled_from(
    ["a", "b", "c", "d", "1", "0", "-7", "2.5", "1e308", "'x'", "''", "TRUE", "priority", "subject", "correlation_id"]
)
_CONDITION = st.one_of(
    st.builds("{} {} {}".format, _LEAF, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), _LEAF),
    st.builds("({} {} {}) / {} = {}".format, _LEAF, st.sampled_from("+-*/"), _LEAF, _LEAF, _LEAF),
    st.builds("{} BETWEEN {} AND {}".format, _LEAF, _LEAF, _LEAF),
    st.builds("{} NOT IN ({}, {})".format, _LEAF, _LEAF, _LEAF),
    st.builds("{} LIKE '{}'".format, _LEAF, st.text("ab%_", max_size=6)),
    st.builds("{} IS NOT NULL".format, _LEAF), _LEAF,
)  # fmt: skip
SELECTORS = st.recursive(
    _CONDITION,
    lambda inner: st.one_of(
        st.builds("({}) AND {}".format, inner, inner), st.builds("{} OR ({})".format, inner, inner), st.builds("NOT ({})".format, inner)
    ),
    max_leaves=6,
)  # fmt: skip


@given(st.one_of(st.text(max_size=60), WORDS), MESSAGES)
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_selector_or_refused(text, blob):
    try:
        wanted = selector(text)
    except PeerError as error:
        assert error.code == "invalid" and "selector" in error.text
    else:
        assert wanted(blob) in (True, False)


@given(SELECTORS, MESSAGES)
@settings(max_examples=400, deadline=None)
def test_it_never_raises_and_never_contradicts_itself(text, blob):
    says(text, blob)


def slowly(text: str, pattern: str) -> bool:
    """What LIKE means, by its definition."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(slowly(text[i:], pattern[1:]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and slowly(text[1:], pattern[1:])


@given(st.text("ab", max_size=9), st.text("ab%_", max_size=7))
@settings(max_examples=1500, deadline=None)
def test_like_means_what_it_says(text, pattern):
    assert like(pattern)(text) is slowly(text, pattern)


def test_like_takes_linear_time():
    text = "a" * like_module.CHARS
    began = time.process_time()
    for pattern in ("%a" * 1000 + "%b", "%" + "a_" * 1000 + "b%", "%a_b%" * 400 + "%c", "%_" * 1500 + "b"):
        assert not like(pattern)(text)
    assert time.process_time() - began < 5, (
        "each takes some 0.03 s; one that backtracks takes longer than there is time"
    )
    assert not like("%")(text + "a")
