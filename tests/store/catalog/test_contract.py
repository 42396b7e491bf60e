"""What every form of the catalogue promises: one suite for SQLite, PostgreSQL and the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mantamq.protocol.errors import StoreError
from mantamq.protocol.wire.events import Bind, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, Member
from mantamq.protocol.wire.records import CheckpointRecord
from mantamq.protocol.wiring.snapshot import ClusterOutline
from mantamq.store.catalog.catalog import Catalog, open_catalog, read_catalog
from mantamq.store.catalog.refusals import CATALOG_DAMAGED

from tests.store.catalog.wirings import Broker, broker_of, entries_of, events, exactly, numbered, outline_of


def with_outline(contents: CheckpointRecord, outline: Any) -> CheckpointRecord:
    return msgspec.structs.replace(contents, outline=msgspec.msgpack.encode(outline))


class Records:
    """A log that keeps all records in memory."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    def append(self, payload: bytes) -> None:
        self.payloads.append(payload)

    def last(self) -> bytes | None:
        return self.payloads[-1] if self.payloads else None


class Place:
    """Where one store has its catalogue; it may be opened any number of times, one after the other."""

    def __init__(self, connect: str, folder: Path) -> None:
        self.connect, self.folder, self.store, self.log = connect, str(folder), uuid4(), Records()

    def open(self, new: bool = False) -> Catalog:
        return open_catalog(self.connect, self.folder, self.store, new=new, log=self.log)

    def again(self, catalog: Catalog) -> Catalog:
        """Close it and open it as a next process does."""
        catalog.close()
        return self.open()


@pytest.fixture(params=["sqlite", "postgresql", "log"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "postgresql":
        return Place(request.getfixturevalue("running").url(), tmp_path)
    return Place("" if request.param == "sqlite" else "log", tmp_path)


def test_nothing_is_there_before_the_first_save(place: Place) -> None:
    catalog = place.open(new=True)
    assert catalog.load() is None
    catalog = place.again(catalog)
    assert catalog.load() is None
    catalog.save(numbered(1))
    assert exactly(catalog.load()) == exactly(numbered(1))


def test_closing_twice_does_nothing(place: Place) -> None:
    catalog = place.open(new=True)
    catalog.save(numbered(1))
    catalog.close()
    catalog.close()
    assert exactly(place.open().load()) == exactly(numbered(1))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(events, max_size=30), min_size=1, max_size=3), st.booleans())
def test_what_is_saved_is_loaded(place: Place, many: list[list], again: bool) -> None:
    """Any wiring, over any wiring, by the opening that saved it and by the next."""
    catalog = place.open(new=True)
    for one in many:
        contents = broker_of(one).contents()
        catalog.save(contents)
        if again:
            catalog = place.again(catalog)
        assert exactly(catalog.load()) == exactly(contents)
    catalog.close()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(events, max_size=40), st.integers(0, 40))
def test_catalogue_and_log_make_the_broker_that_stopped(place: Place, many: list, stop: int) -> None:
    """A broker that begins with the contents and applies the entries behind `wiring_index` is in the same state."""
    entries = entries_of(many)
    lives, stopped = Broker(), Broker()
    lives.apply(entries)
    stopped.apply(entries[:stop])
    catalog = place.open(new=True)
    catalog.save(stopped.contents())
    found = place.again(catalog).load()
    assert found is not None
    back = Broker.restored(found)
    back.apply(entries[found.index :])
    assert back.wiring.digest() == lives.wiring.digest()
    assert exactly(back.contents()) == exactly(lives.contents())


def test_a_name_is_used_again(place: Place) -> None:
    """Rows go before rows come: a queue under an old name, an exchange of another type, the same key elsewhere."""
    first = [
        DeclareExchange("news", "topic", {"limit": 1}),
        DeclareExchange("spare", "fanout", {}),
        DeclareQueue("a", {"limit": 1}, True, "news"),
        DeclareQueue("b", {}),
        Bind("news", "a", "k", {"x": 1}),
        Bind("amq.topic", "a", "k", {"x": 1}),
    ]
    second = [
        *first,
        DeleteQueue("a"),
        DeleteExchange("news"),
        DeleteQueue("b"),
        DeclareExchange("news", "fanout", {"limit": True}),
        DeclareQueue("b", {"limit": 1.0}, False, "news"),
        DeclareQueue("a", {"limit": True}, True, "spare"),
        Bind("news", "a", "k", {"x": True}),
        Bind("amq.topic", "a", "k", {"x": 1}),
    ]
    catalog = place.open(new=True)
    for many in (first, second, first, []):
        contents = broker_of(many).contents()
        catalog.save(contents)
        assert exactly(catalog.load()) == exactly(contents)
        assert exactly(place.again(catalog).load()) == exactly(contents)
        catalog = place.open()


def test_members_are_in_their_order_and_those_that_left_are_remembered(place: Place) -> None:
    many = [Member("b9", 4, True), Member("b1", 5, False), Member("b0", 6, True), Member("b1", 7, True)]
    contents = broker_of(many).contents()
    assert contents.voters == ["b2", "b3", "b9", "b0", "b1"]
    gone = broker_of([*many, Member("b9", 4, False)]).contents()
    assert "b9" not in gone.voters and gone.incs["b9"] == 4
    catalog = place.open(new=True)
    for one in (contents, gone, contents):
        catalog.save(one)
        found = place.again(catalog).load()
        assert found is not None
        assert (found.voters, found.incs, found.lives) == (one.voters, one.incs, one.lives)
        catalog = place.open()


def test_a_queue_without_known_voters_has_none(place: Place) -> None:
    """A wiring that came from another broker: an empty list would be another word."""
    contents = broker_of([DeclareQueue("a", {}), DeclareQueue("b", {})]).contents()
    contents = with_outline(contents, ClusterOutline(outline_of(contents).wiring, {"a#1": []}))
    catalog = place.open(new=True)
    catalog.save(contents)
    found = place.again(catalog).load()
    assert found is not None and outline_of(found).queue_voters == {"a#1": []}


def test_a_field_that_a_later_program_appends_to_the_wiring_is_kept(place: Place) -> None:
    outline = outline_of(numbered(3))
    contents = with_outline(numbered(3), ([*outline.wiring, {"later": [1, b"2"]}], outline.queue_voters, [b"3"]))
    catalog = place.open(new=True)
    catalog.save(contents)
    assert exactly(place.again(catalog).load()) == exactly(contents)


def test_a_record_that_holds_no_wiring_is_refused(tmp_path: Path) -> None:
    place = Place("log", tmp_path)
    place.log.append(b"\x93\x01\x02")
    with pytest.raises(StoreError) as refused:
        place.open().load()
    assert refused.value.code == CATALOG_DAMAGED


@pytest.mark.parametrize("form", ["sqlite", "postgresql"])
def test_people_read_it_while_its_store_uses_it(form: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    connect = request.getfixturevalue("running").url() if form == "postgresql" else ""
    place = Place(connect, tmp_path)
    catalog = place.open(new=True)
    assert read_catalog(place.connect, place.folder, place.store) is None
    for number in (1, 2):
        catalog.save(numbered(number))
        found: CheckpointRecord | None = read_catalog(place.connect, place.folder, place.store)
        assert exactly(found) == exactly(numbered(number))
    catalog.save(numbered(3))  # a reader is not another opener
