"""The state that the next supervisor takes over from a dead one. Every broker keeps a copy of the latest.

Packed, so that a broker that keeps it need not look at it: unpacking the entries of all actors takes long enough for
clients to feel it. Handles travel as the actors' ids, and are looked up again by name. The map that travels is by field
names, as that of every configuration (`../config.py`), so a supervisor of another minor reads it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...protocol.supervisor.change_deeds import Change
from ..ray_control.placement import Placement
from ..ray_control.ray_handles import Handle
from .address_book import AddressBook, BookEntry
from .plan import Plan


class SupervisorState(msgspec.Struct, frozen=True, kw_only=True):
    """Attributes:
    version: rises with each word to the brokers.
    number: of the Supervisor that wrote it: an older one that was cut off may have gone on writing.
    cluster, secret, plan, book, began, numbers: as in the `ClusterRecord`.
    change, ended: the change of the members that is under way, and those that are over.
    down: brokers that are left down, since their stores have failed too often -> why the last time.
    """

    version: int
    number: int
    cluster: str
    secret: bytes
    plan: Plan
    began: float
    book: dict[str, BookEntry]
    numbers: dict[str, int]
    change: Change | None = None
    ended: dict[str, tuple[str, str]] = {}
    down: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"SupervisorState({self.cluster}, {self.number}, {self.version})"

    @property
    def age(self) -> tuple[int, int]:
        """Of two, the one with the higher is the newer."""
        return self.number, self.version

    def packed(self) -> bytes:
        return msgspec.msgpack.encode(self, enc_hook=_id_of)

    @staticmethod
    def unpacked(packed: bytes) -> SupervisorState:
        return msgspec.msgpack.decode(packed, type=SupervisorState, dec_hook=lambda cls, id: PackedHandle(id))

    def handles(self, placement: Placement) -> AddressBook:
        """The address book with handles again; an actor that is gone, or another by now, has one that says so."""
        book = AddressBook(self.book)
        for name, entry in self.book.items():
            found = placement.find(name)
            same = found is not None and found.id == entry.handle.id
            book.change(name, handle=found if same else Handle(name, None))
        return book


class PackedHandle(Handle):
    """A handle that has travelled: the id of an actor, and no way to it."""

    def __init__(self, id: str) -> None:
        super().__init__("", None)
        self._id = id

    @property
    def id(self) -> str:
        return self._id


def _id_of(handle: Any) -> str:
    return handle.id
