"""Observers of a broker are told of its clients and of the cluster stream, and can change nothing of it (after Qpid's
`BrokerObserver` and `ConnectionObserver`). Any number may watch one broker."""

from __future__ import annotations

from typing import Protocol

from ..companions import Companion
from ..status.machines import BrokerStatus
from ..wire.events import AnyEvent, Entry
from ..wiring.wiring import Outcome


class BrokerObserver(Protocol):
    """Of one broker; the same observer serves no second one. A kind of observer overrides what it wants to be told.

    It is told at the moment itself, in the middle of a step. An exception of an observer is a defect of the process,
    like one of any rule.
    """

    @property
    def companion(self) -> Companion | None:
        """The machine by which it talks to a peer of its own, None for none."""
        return None

    def report(self, status: BrokerStatus) -> None:
        """The broker says how it is: this observer fills in the fields that it knows."""

    def applied(self, index: int, entry: Entry, event: AnyEvent, outcome: Outcome) -> None:
        """The entry at `index` of the cluster stream is applied, and no client has been told. A process that has come
        back with its log tells anew what it applies anew: all behind its last checkpoint."""

    def client_opened(self, client: str) -> None:
        """A client with this id is let in."""

    def client_ended(self, client: str, code: str) -> None:
        """Its connection is over. `code`: why the broker ended it, "" if it broke or the client closed it."""

    def clients_sent_away(self, count: int, reason: str) -> None:
        """So many connections are about to end: this broker has lost the majority, or it goes."""

    def reading_paused(self, paused: bool) -> None:
        """The broker stops to read from its clients (`sequencer.md` S8), or reads on."""

    def store_opened(self, before: int, blank: bool, entries: int, took_ms: int) -> None:
        """Its store has the cluster stream open for this life, on disk.

        Args:
            before: the life that had it before, 0 for none.
            blank: it begins without a log that votes.
            entries: that were read back behind the last checkpoint.
            took_ms: since the store was asked.
        """

    def disk_pressed(self, pressed: bool) -> None:
        """Its store has begun its reserve, for want of room on the disk; or there is room again."""

    def store_happened(self, what: str, queue: str, value: int, detail: str) -> None:
        """Its store tells something of itself: a row of the event table, but for its time (`Happened`)."""

    def members_moved(self, addresses: dict[str, str]) -> None:
        """Clients are told these members from now on, with their "host:port"."""
