"""The state that the next supervisor takes over from a dead one. Every broker keeps a copy of the latest.

Packed, so that a broker that keeps it need not look at it: unpacking the handles of all actors takes long enough for
clients to feel it. They travel as the actors' ids, and are looked up again by name.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

from ...protocol.supervisor.change_deeds import Change
from ..ray_control.placement import Placement
from ..ray_control.ray_handles import Handle
from .address_book import AddressBook, BookEntry
from .plan import Plan


@dataclass(frozen=True)
class SupervisorState:
    """Attributes:
    version: rises with each word to the brokers.
    number: of the Supervisor that wrote it: an older one that was cut off may have gone on writing.
    cluster, secret, plan, began, numbers, change, ended: as in the `ClusterRecord`.
    book: the address book, without handles.
    ids: name -> Ray's id of the actor.
    """

    version: int
    cluster: str
    secret: bytes
    plan: Plan
    began: float
    book: dict[str, BookEntry]
    ids: dict[str, str]
    numbers: dict[str, int]
    change: Change | None
    ended: dict[str, tuple[str, str]]
    number: int = 0

    @property
    def age(self) -> tuple[int, int]:
        """Of two, the one with the higher is the newer."""
        return self.number, self.version

    @staticmethod
    def of(book: AddressBook, **known: Any) -> SupervisorState:
        bare = {name: replace(entry, handle=Handle(name, None)) for name, entry in book.items()}
        return SupervisorState(book=bare, ids={name: entry.handle.id for name, entry in book.items()}, **known)

    def packed(self) -> bytes:
        return pickle.dumps(self)

    @staticmethod
    def unpacked(packed: bytes) -> SupervisorState:
        return pickle.loads(packed)

    def handles(self, placement: Placement) -> AddressBook:
        """The address book with handles again; an actor that is gone, or another by now, has one that says so."""
        book = AddressBook(self.book)
        for name in book:
            found = placement.find(name)
            if found is not None and found.id == self.ids[name]:
                book.change(name, handle=found)
        return book
