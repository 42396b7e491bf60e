"""Patterns of names: as Python's own regular expressions find them, and never long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mantamq.protocol.errors import PeerError
from mantamq.protocol.wiring.name_patterns import MOST_CHARS, check_pattern, matches

NAMES = ["", "orders", "orders.eu", "a.b", "aab", "AB-9", "x{2}", "tab\tx", "ä", "aaa", "abab", "]", "-", "(a)", "a/b"]
PATTERNS = [
    *(".*", "^orders$", r"^orders\.", "a", "^a|b$", "(ab)+$", "(?:a|b)*", "^(a|aa)+$", "[a-c]{2}", "^[^a-z]", r"\d"),
    *(r"\w+\.\w+", r"^\S+$", r"\s", "a{2}", "a{2,}", "^a{1,2}$", "a?b", "a*?b", "^$", "[]]", "[-a]", "[a-]", r"[\d]"),
    *(r"x\{2\}", "(a(b(c)?)?)?$", "a||b", "()", r"[\w.]+", r"\(a\)", "^.{3}$", "ä", r"[^\d]$", "a{0}b"),
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_is_found_where_pythons_own_finds_it(pattern):
    check_pattern(pattern)
    for name in NAMES:
        assert matches(pattern, name) == bool(re.search(pattern, name, re.ASCII)), name


PIECES = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "^", "$", r"\d", ""]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}"])).map(lambda b: f"(?:{b[0]}){b[1]}"),
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(PIECES.filter(bool), st.text("ab1", max_size=6))
def test_any_pattern_is_found_where_pythons_own_finds_it(pattern, name):
    try:
        check_pattern(pattern)
    except PeerError as refused:
        assert "more than" in refused.text or "characters" in refused.text
        return
    assert matches(pattern, name) == bool(re.search(pattern, name, re.ASCII))


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "has 1 to 255 characters, not 0"),
        ("a" * (MOST_CHARS + 1), "not 256"),
        ("*a", "character 1: there is nothing here to repeat"),
        ("a**", "character 3: what is repeated already is repeated again"),
        ("(a", "a group has no end"),
        ("a)", "there is no group that this ends"),
        ("[a", "a set of characters has no end"),
        ("[b-a]", "b-a is the wrong way round"),
        (r"(a)\1", "stands before d, D"),
        ("(?=a)", "nothing that looks ahead or behind"),
        ("a{x}", r"a count is \{3\}"),
        ("a{3,1}", r"a count is \{3\}"),
        ("a\\", "stands before d"),
        (r"[\D]", "in a set there are"),
        ("((((a{99}){99}){99}){99})", "more than 512 steps"),
        ("(" * 30 + "a" + ")" * 30, "nest at most 20 deep"),
    ],
)
def test_what_is_no_pattern_is_refused_and_why(pattern, why):
    with pytest.raises(PeerError, match=why):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a?){100}a{100}b"])
def test_no_pattern_takes_long(pattern):
    begun = time.monotonic()
    assert not matches(pattern, "a" * 255)
    assert time.monotonic() - begun < 2
