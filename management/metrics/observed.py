"""What metrics are read from: a view of the cluster as it is now, with what was counted up to here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from msgspec import UNSET

from ...protocol.status.machines import BrokerStatus, SequencerStatus
from ...protocol.status.members import BrokerMember, MemberStatus, StoreMember
from ...protocol.status.stores import StoreStatus
from ..view import ManagementView, Row
from .bounded import BoundedRows

M = TypeVar("M")

OF_QUEUES = (
    "enqueued", "dequeued", "accepted", "discarded", "dead_lettered", "expired", "moved", "acquires", "releases",
    "bytes_in", "bytes_out", "handovers", "flowStoppedCount", "discarded_subscriber", "discarded_too_often",
    "discarded_ring", "discarded_last_value", "discarded_purge", "refused", "duplicates",
)  # fmt: skip
"""The fields of a queue that count."""
OF_EXCHANGES = ("received", "routed", "unroutable")
OF_BROKERS = ("received", "unroutable")


def traffic(*counters: str) -> Callable[[Row], float]:
    """How much goes through a row in a second, by these counters."""
    return lambda row: sum(row.get("rates", {}).get(counter, 0.0) for counter in counters)


class Observed:
    """A cluster, read again and again. Half of the labels of queues go to those with most messages in them, the rest to
    those through which most go.

    Args:
        most: so many queues have a label of their own, and so many exchanges, and brokers.

    Attributes:
        view: the view at the last look.
        now_s: Unix time.
        looks: how often the cluster was looked at.
        queues, exchanges, brokers: their rows.
        replicas: broker -> of its replicas: the largest "lag", in entries, and how many are "missing" and "updating".
    """

    def __init__(self, most: int) -> None:
        through = traffic("enqueued", "dequeued")
        depth: Callable[[Row], float] = lambda row: row.get("messages", 0)  # noqa: E731
        self.queues = BoundedRows("name", "id", OF_QUEUES, (depth, through), most)
        self.exchanges = BoundedRows("name", "name", OF_EXCHANGES, (traffic("received"),), most)
        self.brokers = BoundedRows("broker", "broker", OF_BROKERS, (traffic("received"),), most)
        self.replicas: dict[str, Row] = {}
        self.view = ManagementView()
        self.now_s = 0.0
        self.looks = 0
        self._time_s = 0.0
        self._answered: dict[str, Any] = {}

    def take(self, view: ManagementView, now_s: float, looks: int) -> None:
        """Have the view as it is now; tables that are those of the look before are not counted again."""
        self.view, self.now_s, self.looks = view, now_s, looks
        if view.time_s == self._time_s:
            return
        self._time_s = view.time_s
        self.replicas = self._replicas()
        brokers = view.rows("brokers")
        # What came to exchanges is added up over the brokers that have answered.
        answered = {row["broker"]: row.get("inc") for row in brokers if "error" not in row}
        self.queues.take(view.rows("queues"))
        self.exchanges.take(view.rows("exchanges"), answered == self._answered)
        self.brokers.take(brokers)
        self._answered = answered

    def _replicas(self) -> dict[str, Row]:
        found: dict[str, Row] = {}
        for row in self.view.replicas():
            one = found.setdefault(row["broker"], {"lag": 0, "missing": 0, "updating": 0})
            one["lag"] = max(one["lag"], row["lag"] or 0)
            one["missing"] += row["state"] == "missing"
            one["updating"] += row["state"] == "being brought up to date"
        return found

    @property
    def leader(self) -> SequencerStatus | None:
        """The sequencer that leads."""
        return self.view.leader()

    def broker_machines(self) -> Iterator[tuple[str, BrokerStatus]]:
        """Broker -> what it says of itself, where it does."""
        return self._machines(BrokerMember)

    def stores(self) -> Iterator[tuple[str, StoreStatus]]:
        """Broker -> its store, where that says anything."""
        return self._machines(StoreMember)

    def members(self) -> dict[str, tuple[int, int]]:
        """Class of actors -> how many there are, and how many of them do not answer."""
        found: dict[str, tuple[int, int]] = {}
        for row in self.view.members():
            there, silent = found.get(row["role"], (0, 0))
            found[row["role"]] = (there + 1, silent + (not row["alive"]))
        return found

    def _machines(self, kind: type[MemberStatus[M]]) -> Iterator[tuple[str, M]]:
        status = self.view.status
        for actor in status.actors if status is not None else ():
            if isinstance(actor, kind) and actor.machine is not UNSET:
                yield actor.name.partition(".")[0], actor.machine
