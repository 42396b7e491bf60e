"""Contents as rows and back, without a database."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mantamq.protocol.errors import LocalError
from mantamq.protocol.wire.events import Bind, DeclareQueue, DeleteQueue
from mantamq.protocol.wire.policy_events import PutPolicy
from mantamq.protocol.wiring.definitions import canonical
from mantamq.protocol.wiring.wiring import Wiring
from mantamq.store.catalog.rows import escaped, from_json, from_tables, to_json, to_tables, unescaped

from tests.store.catalog.wirings import arguments, broker_of, events, exactly, outline_of


@given(st.lists(events, max_size=60))
def test_contents_are_the_same_after_a_walk_through_rows(many: list) -> None:
    contents = broker_of(many).contents()
    again = from_tables(to_tables(contents))
    assert exactly(again) == exactly(contents)
    wiring = Wiring.restore(outline_of(again).wiring)
    assert canonical(wiring.snapshot()) == canonical(outline_of(contents).wiring)


def test_whose_an_exclusive_queue_is_goes_along() -> None:
    mine = DeclareQueue("mine", {"manta.exclusive": True}, client="c", broker="b1", inc=1, life=1)
    contents = broker_of([mine, DeclareQueue("q", {})]).contents()
    again = from_tables(to_tables(contents))
    assert exactly(again) == exactly(contents)
    assert [queue.client for queue in Wiring.restore(outline_of(again).wiring).queues()] == ["c", ""]


def test_what_policies_have_made_of_a_queue_goes_along_and_what_it_was() -> None:
    first, second = ({"qpid.max_count": count} for count in (5, 3))
    events = [PutPolicy("p", "^a", first), DeclareQueue("a", {}), DeclareQueue("q", {}), PutPolicy("p", "^a", second)]
    contents = broker_of(events).contents()
    again = from_tables(to_tables(contents))
    assert exactly(again) == exactly(contents)
    followed, plain = Wiring.restore(outline_of(again).wiring).queues()
    assert (followed.changed, followed.own, plain.changed, plain.own) == (4, {}, 0, None)
    assert followed.arguments["qpid.max_count"] == 3 and followed.first is not None
    assert followed.first["qpid.max_count"] == 5 and followed.judged


def test_a_queue_that_is_deleted_and_not_empty_yet_goes_along() -> None:
    lasting = {"manta.dead_letters": "all"}
    declared = [DeclareQueue("q", lasting, True, "amq.fanout"), DeleteQueue("q", aside=True), DeclareQueue("q", {})]
    contents = broker_of(declared).contents()
    again = from_tables(to_tables(contents))
    assert exactly(again) == exactly(contents)
    wiring = Wiring.restore(outline_of(again).wiring)
    assert [one.id for one in wiring.all_kept()] == ["q#3", "q#1"]
    assert outline_of(again).queue_voters.keys() == {"q#1", "q#3"}


@given(arguments)
@example({"$bytes": "AA=="})
@example({"$bytes": b"\0", "$$bytes": {"$bytes": b""}})
@example({"a": {"$bytes": "AA==", "b": 1}})
@example({"a": 'x"$bytes": 1'})
@example({"$float": "7ff8000000000000", "a": math.copysign(math.nan, -1)})
@example({"a": math.copysign(math.nan, -1)})
@example({"$float": "00", "a": {"$float": math.nan}})
@example({"a": [1, 1.0, True, -0.0, float("inf"), float("nan"), None, 2**63]})
def test_arguments_are_the_same_after_a_walk_through_json(value: dict[str, Any]) -> None:
    assert canonical(from_json(to_json(value))) == canonical(value)


def test_plain_arguments_are_plain_json() -> None:
    assert to_json({"limit": 5, "überfluß": [True, "x"]}) == '{"limit": 5, "überfluß": [true, "x"]}'
    assert to_json({"a": b"bytes", "$b": 1}) == '{"a": {"$bytes": "Ynl0ZXM="}, "$$b": 1}'


@given(st.text(st.sampled_from("\\\0a0"), max_size=12))
def test_a_key_is_the_same_after_its_escape(key: str) -> None:
    assert unescaped(escaped(key)) == key
    assert "\0" not in escaped(key)


def test_rows_say_what_people_look_for() -> None:
    contents = broker_of(
        [DeclareQueue("orders", {"limit": 5}, True), Bind("amq.topic", "orders", "o.#", {})]
    ).contents()
    rows = to_tables(contents).rows
    assert rows["queues"] == {
        "orders#1": ("orders#1", "orders", '{"limit": 5}', True, None, '["b1", "b2", "b3"]'),
    }
    ((place, *bound),) = rows["bindings"].values()
    assert bound == ["amq.topic", "orders", "o.#", "{}"] and len(place) == 32
    assert rows["members"]["b2"] == ("b2", 1, None, None)


@given(st.lists(events, max_size=30), st.data())
def test_the_digest_tells_rows_that_were_changed(many: list, data: st.DataObject) -> None:
    kept = to_tables(broker_of(many).contents())
    table = data.draw(st.sampled_from([name for name, rows in kept.rows.items() if rows]))
    key = data.draw(st.sampled_from(sorted(kept.rows[table])))
    row = kept.rows[table][key]
    index = data.draw(st.integers(0, len(row) - 1))
    for other in (None, "other", 7, not row[index]):
        if canonical(other) == canonical(row[index]):
            continue
        rows = {**kept.rows, table: {**kept.rows[table], key: (*row[:index], other, *row[index + 1 :])}}
        if index or isinstance(other, str):
            assert kept._replace(rows=rows).digest != kept.digest
    assert kept._replace(rows={**kept.rows, table: {}}).digest != kept.digest


@pytest.mark.parametrize("field", ["queues", "exchanges", "bindings"])
def test_what_no_column_is_there_for_is_never_dropped(field: str) -> None:
    contents = broker_of([DeclareQueue("orders", {}), Bind("amq.topic", "orders", "o.#", {})]).contents()
    place = ["queues", "exchanges", "bindings"].index(field)
    wiring, voters = msgspec.msgpack.decode(contents.outline)
    wiring[place] = [[*one, "later"] for one in wiring[place]]
    with pytest.raises(LocalError, match="no column"):
        to_tables(msgspec.structs.replace(contents, outline=msgspec.msgpack.encode([wiring, voters])))


def test_voters_of_a_queue_that_is_not_there_are_a_defect() -> None:
    contents = broker_of([DeclareQueue("orders", {})]).contents()
    with pytest.raises(LocalError, match="gone#1"):
        outline = msgspec.msgpack.encode([outline_of(contents).wiring, {"gone#1": ["b1"]}])
        to_tables(msgspec.structs.replace(contents, outline=outline))
