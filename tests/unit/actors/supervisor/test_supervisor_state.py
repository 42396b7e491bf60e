"""What the next supervisor is told survives packing, and its handles are of the same processes or of none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from mantamq.actors.ray_control.ray_handles import ActorGone, Handle
from mantamq.actors.supervisor.address_book import AddressBook, BookEntry
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.supervisor_state import SupervisorState
from mantamq.protocol.supervisor.change_deeds import LEAVE, Change


def handle(name: str, id: str) -> Handle:
    actor: Any = SimpleNamespace(_actor_id=bytes.fromhex(id))
    return Handle(name, actor)


class Names:
    """A `Placement` that knows these actors."""

    def __init__(self, **ids: str) -> None:
        self.ids = ids

    def find(self, name: str) -> Handle | None:
        return handle(name, self.ids[name]) if name in self.ids else None


def state() -> SupervisorState:
    book = AddressBook()
    for name, id in (("b1", "01"), ("b2", "02"), ("b3", "03")):
        book[name] = BookEntry(handle(name, id), "BrokerNode", "node", "10.0.0.1", 7, peers="10.0.0.1:1", serving=True)
    return SupervisorState(
        book=book, number=2, version=5, cluster="c", secret=b"s", plan=Plan.of(3).left_by("b2"), began=1.5, numbers={"broker": 3},
        change=Change("r", LEAVE, "b3"), ended={"q": ("b2", "")},
        down={"b3": "errno 5"},
    )  # fmt: skip


def test_all_of_it_is_there_again() -> None:
    found = SupervisorState.unpacked(state().packed())
    assert (found.version, found.plan.members, found.numbers) == (5, ("b1", "b3"), {"broker": 3})
    assert found.change == Change("r", LEAVE, "b3") and found.ended == {"q": ("b2", "")}
    assert found.book["b1"].serving and found.book["b1"].peers == "10.0.0.1:1"
    assert [entry.handle.id for entry in found.book.values()] == ["01", "02", "03"]
    assert found.down == {"b3": "errno 5"}
    assert found.age == (2, 5) and "'s'" not in repr(found)


def test_a_supervisor_of_another_minor_reads_it() -> None:
    said = msgspec.msgpack.decode(state().packed())
    for one in (said, said["plan"], said["plan"]["config"], said["change"], said["book"]["b1"]):
        one["later"] = [1, "2"]
    del said["down"], said["ended"], said["plan"]["moving"], said["book"]["b2"]["serving"]
    found = SupervisorState.unpacked(msgspec.msgpack.encode(said))
    assert (found.plan, found.change, found.ended) == (state().plan, state().change, {})
    assert found.book["b1"].serving and not found.book["b2"].serving


def test_a_handle_is_of_the_same_process_or_of_none() -> None:
    book = SupervisorState.unpacked(state().packed()).handles(Names(b1="01", b3="99"))  # pyright: ignore[reportArgumentType]
    assert [entry.handle.id for entry in book.values()] == ["01", "", ""]  # b2 is gone, b3 is another by now
    with pytest.raises(ActorGone, match="b3 is gone"):
        book["b3"].handle.call_now("status")
    book["b3"].handle.kill()  # nothing to do


def test_half_started_are_those_of_which_no_address_is_known() -> None:
    book = AddressBook(state().book)
    book.change("b2", peers="")
    assert book.half_started() == ["b2"]
