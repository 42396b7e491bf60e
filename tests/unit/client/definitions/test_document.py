"""The definitions file: its values, what reading one comes to, and what is said of files that cannot be read."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.client.definitions.declarations import Step, by_alternate, exclusive_first, name_of, what_of
from mantamq.client.definitions.document import FORMAT, document_of, read_document, text_of
from mantamq.client.definitions.reading import MOST_BYTES, read_file
from mantamq.client.definitions.values import BYTES, MAP, NUMBER, from_json, to_json
from mantamq.client.errors import Invalid
from mantamq.protocol.wire.events import Bind, DeclareExchange, DeclareQueue
from mantamq.protocol.wire.policy_events import PutPolicy
from mantamq.protocol.wire.redirect_events import Redirect
from mantamq.protocol.wiring.arguments import DEPTH
from mantamq.protocol.wiring.definitions import canonical

NAMES = st.sampled_from([BYTES, NUMBER, MAP, "a", "$", "", "x-y"])
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats().map(lambda number: math.nan if math.isnan(number) else number)  # of many kinds of nan
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_every_value_survives_a_file(value: Any) -> None:
    text = json.dumps(to_json(value), allow_nan=False)
    assert canonical(from_json(json.loads(text), "value")) == canonical(value)


def test_marks_are_few_and_readable() -> None:
    assert to_json({"b": b"\xff", "a": math.inf, "m": {BYTES: 1}, "l": [{BYTES: 1, "x": 2}]}) == {
        "a": {NUMBER: "inf"}, "b": {BYTES: "/w=="}, "l": [{BYTES: 1, "x": 2}], "m": {MAP: {BYTES: 1}},
    }  # fmt: skip
    assert list(to_json({"b": 1, "a": {"d": 1, "c": 2}})) == ["a", "b"]


ANSWER: dict[str, list[dict[str, Any]]] = {
    "exchanges": [
        {"name": "in", "type": "topic", "arguments": {"z": 1, "a": b"\x00"}, "durable": True, "alternate": "late"},
        {"name": "late", "type": "fanout", "arguments": {}, "durable": False, "alternate": ""},
    ],
    "queues": [{"name": "q", "durable": False, "alternate": "late", "arguments": {"qpid.max_count": 5}}],
    "bindings": [
        {"exchange": "in", "queue": "q", "key": "b", "arguments": {}},
        {"exchange": "in", "queue": "q", "key": "a", "arguments": {"n": 2}},
        {"exchange": "in", "queue": "q", "key": "a", "arguments": {"n": 1}},
        {"exchange": "in", "to_exchange": "late", "key": "#", "arguments": {}},
    ],
}


def test_a_document_is_what_was_declared_in_an_order_that_works() -> None:
    document = document_of(ANSWER)
    assert list(document) == ["manta", "exchanges", "queues", "bindings"] and document["manta"] == 1
    assert read_document(json.loads(text_of(document))).declarations == [
        DeclareExchange("late", "fanout", {}, False, ""),
        DeclareExchange("in", "topic", {"a": b"\x00", "z": 1}, True, "late"),
        DeclareQueue("q", {"qpid.max_count": 5}, False, "late"),
        Bind("in", "q", "a", {"n": 1}, ""),
        Bind("in", "q", "a", {"n": 2}, ""),
        Bind("in", "q", "b", {}, ""),
        Bind("in", "", "#", {}, "late"),
    ]


def test_policies_come_before_queues_and_make_it_another_format() -> None:
    policy = {"name": "p", "pattern": "^q", "arguments": {"qpid.max_count": 5}, "priority": 3, "operator": False}
    answer = ANSWER | {"policies": [policy | {"alternate": "late"}, policy | {"operator": True, "alternate": ""}]}
    document = document_of(answer)
    assert (list(document)[:3], document["manta"]) == (["manta", "exchanges", "policies"], FORMAT)
    assert read_document(json.loads(text_of(document))).declarations[2:5] == [
        PutPolicy("p", "^q", {"qpid.max_count": 5}, 3, False, "late"),
        PutPolicy("p", "^q", {"qpid.max_count": 5}, 3, True),
        DeclareQueue("q", {"qpid.max_count": 5}, False, "late"),
    ]


def test_redirected_queues_come_last_and_make_it_another_format() -> None:
    answer = ANSWER | {"redirects": [{"source": "q", "target": "r"}, {"source": "p", "target": "r"}]}
    document = document_of(answer)
    assert (list(document)[-1], document["manta"]) == ("redirects", FORMAT)
    declared = read_document(json.loads(text_of(document))).declarations
    assert declared[-2:] == [Redirect("p", "r"), Redirect("q", "r")]
    assert [(what_of(one), name_of(one)) for one in declared[-1:]] == [("redirect", "q -> r")]


def test_the_order_of_an_answer_does_not_matter() -> None:
    turned = {name: rows[::-1] for name, rows in ANSWER.items()}
    assert text_of(document_of(turned)) == text_of(document_of(ANSWER))


def test_what_is_left_out_has_its_default() -> None:
    document = {"manta": 1, "queues": [{"name": "q"}], "exchanges": [{"name": "e", "type": "direct"}]}
    assert read_document(document).declarations == [DeclareExchange("e", "direct", {}), DeclareQueue("q", {})]
    assert read_document({"manta": 1}).declarations == []


def test_a_reading_can_be_made_transient() -> None:
    reading = read_document({"manta": 1, "queues": [{"name": "q", "durable": True}],
                             "exchanges": [{"name": "e", "type": "direct", "durable": True}]})  # fmt: skip
    assert [one.durable for one in reading.transient().declarations] == [True, False]  # type: ignore[union-attr]


def test_what_a_declaration_is_called() -> None:
    found = [
        DeclareExchange("e", "topic", {}),
        DeclareQueue("q", {}),
        Bind("e", "q", "k", {}),
        Bind("e", "", "", {}, "f"),
    ]
    assert [what_of(one) for one in found] == ["exchange", "queue", "binding", "binding"]
    assert [name_of(one) for one in found] == ["e", "q", "e -> q (k)", "e -> f"]


def exchange(name: str, alternate: str = "") -> DeclareExchange:
    return DeclareExchange(name, "direct", {}, False, alternate)


@pytest.mark.parametrize(
    ("given", "names", "ring"),
    [
        ([], [], []),
        ([exchange("a", "b"), exchange("b", "c"), exchange("c")], ["c", "b", "a"], []),
        ([exchange("a"), exchange("b", "a"), exchange("c", "amq.fanout")], ["a", "b", "c"], []),
        ([exchange("a", "a")], ["a"], ["a", "a"]),
        ([exchange("x", "a"), exchange("a", "b"), exchange("b", "a")], ["x", "a", "b"], ["a", "b", "a"]),
    ],
)
def test_alternates_come_before_who_has_them(given: list[DeclareExchange], names: list[str], ring: list[str]) -> None:
    ordered, found = by_alternate(given)
    assert [one.name for one in ordered] == names and found == ring


def test_a_long_chain_of_alternates_is_no_recursion() -> None:
    chain = [exchange(f"{number}", f"{number + 1}") for number in range(5000)]
    assert by_alternate(chain) == (chain[::-1], [])


def test_exclusive_bindings_come_first() -> None:
    plain, alone = Step(Bind("e", "q", "k", {})), Step(Bind("e", "r", "k", {"qpid.exclusive-binding": True}))
    assert exclusive_first([plain, alone]) == [alone, plain]


def test_the_two_kinds_of_files_are_told_apart() -> None:
    assert read_file(b'{"manta": 1}').wanted == []
    assert read_file(b'{"rabbit_version": "3.13.0"}').wanted == []
    assert read_file(b'\xef\xbb\xbf{"manta": 1}').wanted == []  # with the mark that some editors write


DEEP: dict[str, Any] = {"in": 1}
for _ in range(DEPTH):
    DEEP = {"in": DEEP}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1, column 1: this is no JSON"),
        ('{"manta": 1,\n "queues": [}', "line 2, column 13: this is no JSON"),
        ("[" * 100_000, "nest too deep"),
        ('{"manta": 1, "queues": [], "queues": []}', "an object has 'queues' twice"),
        ('{"manta": NaN}', "NaN is no number of JSON"),
        ("9" * 5000, "this cannot be read as JSON"),
        ("[]", "this is no definitions file, but []: give one that `mantamq definitions export` has written"),
        ("17", "this is no definitions file, but 17"),
        ('{"name": "q"}', "this is no definitions file"),
        ('{"manta": 3}', "manta is 3: this version of mantamq reads format 1 to 2, import it with the one that wrote it"),
        ('{"manta": 0}', "manta is 0"),
        ('{"manta": "1"}', 'manta is "1": give a whole number'),
        ('{"manta": true}', "manta is true: give a whole number"),
        ('{"manta": 1, "users": []}', "users means nothing here: there are manta, exchanges, policies, patterns, queues, bindings, redirects; leave it out"),
        ('{"manta": 1, "queues": {}}', "queues is {}: give a list of objects"),
        ('{"manta": 1, "queues": ["q"]}', 'queues[0] is "q": give an object'),
        ('{"manta": 1, "queues": [{}]}', "queues[0].name is missing: give a text"),
        ('{"manta": 1, "queues": [{"name": ""}]}', "queues[0].name: a queue's name has 1 to 255 characters, not 0"),
        ('{"manta": 1, "queues": [{"name": "a\\u0000"}]}', "queues[0].name: a queue's name has no control characters"),
        ('{"manta": 1, "queues": [{"name": 5}]}', "queues[0].name is 5: give a text"),
        ('{"manta": 1, "queues": [{"name": "a"}, {"name": "q", "durable": "yes"}]}',
         'queues[1].durable is "yes": give true or false'),
        ('{"manta": 1, "queues": [{"name": "q", "alternate": null}]}', "queues[0].alternate is null: give a text"),
        ('{"manta": 1, "queues": [{"name": "q", "max_count": 5}]}', "queues[0].max_count means nothing here"),
        ('{"manta": 1, "queues": [{"name": "q", "arguments": []}]}', "queues[0].arguments is []: give an object"),
        ('{"manta": 1, "queues": [{"name": "q", "arguments": {"a": {"b": [1, 18446744073709551616]}}}]}',
         "queues[0].arguments.a.b[1] is 18446744073709551616: whole numbers are from -2**63 to 2**64 - 1"),
        ('{"manta": 1, "queues": [{"name": "q", "arguments": {"a": 1e999}}]}', "queues[0].arguments.a is too large"),
        ('{"manta": 1, "queues": [{"name": "q", "arguments": {"a": "\\ud800"}}]}', "arguments.a is '\\ud800': half of a"),
        ('{"manta": 1, "queues": [{"name": "q", "arguments": {"\\ud800": 1}}]}', "a name in queues[0].arguments is"),
        ('{"manta": 1, "queues": [{"name": "q", "arguments": {"a": {"$bytes": "?"}}}]}', "arguments.a.$bytes is '?'"),
        ('{"manta": 1, "queues": [{"name": "q", "arguments": {"a": {"$number": 5}}}]}', "arguments.a.$number is 5"),
        ('{"manta": 1, "queues": [{"name": "q", "arguments": {"a": {"$map": 5}}}]}', "arguments.a.$map is 5: give the map"),
        (json.dumps({"manta": 1, "queues": [{"name": "q", "arguments": DEEP}]}), "queues[0].arguments nest too deep"),
        ('{"manta": 1, "queues": [{"name": "q"}, {"name": "r"}, {"name": "q"}]}',
         "queues[2]: queue 'q' stands at queues[0] already: leave one of the two out"),
        ('{"manta": 1, "exchanges": [{"name": "e", "type": "topic"}, {"name": "e", "type": "topic"}]}',
         "exchanges[1]: exchange 'e' stands at exchanges[0] already"),
        ('{"manta": 1, "exchanges": [{"name": "e"}]}', "exchanges[0].type is missing: give a text"),
        ('{"manta": 1, "exchanges": [{"name": "e", "type": "fanout", "alternate": "f"}, '
         '{"name": "f", "type": "fanout", "alternate": "e"}]}', "exchanges: their alternates are a ring, e -> f -> e"),
        ('{"manta": 1, "bindings": [{"exchange": "e"}]}', "bindings[0] leads to a queue or to an exchange: give one"),
        ('{"manta": 1, "bindings": [{"exchange": "e", "queue": "q", "to_exchange": "f"}]}', "give one of queue and"),
        ('{"manta": 1, "bindings": [{"exchange": "e", "queue": "q", "key": 1}]}', "bindings[0].key is 1: give a text"),
        ('{"manta": 1, "bindings": [{"queue": "q"}]}', "bindings[0].exchange is missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_where_and_what_to_do(text: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_file(text.encode())
    assert said in refused.value.text


def test_bytes_that_are_no_text_are_said() -> None:
    with pytest.raises(Invalid, match="byte 11: this is no text in UTF-8"):
        read_file(b'{"manta": "\xff"}')


def test_what_is_too_large_is_not_read() -> None:
    with pytest.raises(Invalid, match="at most 32 MiB: divide the file"):
        read_file(b" " * (MOST_BYTES + 1))


def test_a_virtual_host_is_of_rabbitmqs_files() -> None:
    with pytest.raises(Invalid, match="leave --vhost out"):
        read_file(b'{"manta": 1}', "/")
