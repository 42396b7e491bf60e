"""`ManagementView`: the one model of a cluster that pages, HTTP, metrics, alerts and commands read.

It is fed with looks (`Sample`) and never asks anybody itself, so it can be built and tested without a cluster. It is no
replicated state: whoever shows it has one of its own, and nothing in the cluster depends on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET

from ..protocol.sequencer.election import LEADING
from ..protocol.status.cluster import ClusterStatus
from ..protocol.status.machines import SequencerStatus
from ..protocol.status.members import AnyMember, ReplicaMember, SequencerMember, TapMember
from ..protocol.wire.events import CLUSTER
from .history import MINUTES, Histories, LongHistory, point_of
from .listing import Listing, Wanted, listing
from .lock_moves import LockMove, LockMoves
from .rates import Rates

Row = dict[str, Any]
PARTS = ("queues", "exchanges", "brokers", "connections", "links", "groups")
"""What there are statistics of."""
OF_BROKERS = ("received", "unroutable", "opened", "closed")
"""What a broker counts of itself: messages that came, and connections that were opened and closed."""
OF_ALL_QUEUES = ("queues_declared", "queues_deleted")
"""What each broker counts of the whole cluster."""
OF_QUEUES = ("enqueued", "dequeued", "accepted", "acquires", "releases", "discarded", "dead_lettered", "expired")
SUMS = ("messages", "available", "acquired", "delayed", "bytes")


class Sample(NamedTuple):
    """A look at a cluster.

    Attributes:
        at_s: when, by a clock that never goes back; seconds.
        time_s: when, as Unix time; seconds.
        status: of its members; None where that was not to be had.
        statistics: part -> its rows, as `Connection.statistics`; empty where they were not to be had.
        troubles: what was not to be had -> why.
    """

    at_s: float
    time_s: float
    status: ClusterStatus | None
    statistics: Mapping[str, list[Row]]
    troubles: Mapping[str, str] = {}


class ManagementView:
    """A cluster as operators see it.

    What could not be asked for at the last look is shown as it was at the one before, and `troubles` says so.

    Attributes:
        status: of the members, at the last look that had it; None before the first.
        time_s: Unix time of the last look, 0 before the first.
        troubles: what the last look did not have -> why.
        silent: brokers that did not say what they alone know.
        dashboard: "host:port" of Ray's, "" where there is none.
    """

    def __init__(self) -> None:
        self.status: ClusterStatus | None = None
        self.time_s = 0.0
        self.dashboard = ""
        self.troubles: Mapping[str, str] = {}
        self.silent: list[str] = []
        self._rows: dict[str, dict[str, Row]] = {part: {} for part in PARTS}
        self._rates = {
            "queues": Rates(OF_QUEUES, lambda row: row["id"]),
            "exchanges": Rates(("received", "routed", "unroutable"), lambda row: row["name"]),
            "brokers": Rates((*OF_BROKERS, *OF_ALL_QUEUES), lambda row: row["broker"]),
            "connections": Rates(("sent",), _of_connection),
            "links": Rates(("sent", "delivered"), _of_link),
        }
        self._histories = Histories()
        self._whole = LongHistory()
        self._moves = LockMoves()

    def take(self, sample: Sample) -> None:
        """Have a newer look at the cluster."""
        self.time_s, self.troubles = sample.time_s, sample.troubles
        if sample.status is not None:
            self.status = sample.status
        found = sample.statistics
        if not found:
            return
        self.silent = [str(broker) for broker in found.get("silent", ())]
        for part, rates in self._rates.items():
            rates.take(found.get(part, ()), sample.at_s)
        for part in PARTS:
            self._rows[part] = {_KEYS[part](row): self._rated(part, row) for row in found.get(part, ())}
        queues = self._rows["queues"].values()
        self._histories.take(queues, {queue["id"]: queue["rates"] for queue in queues}, sample.time_s)
        self._whole.add(point_of(self.totals(), self.rates(), sample.time_s))
        self._moves.take(queues, sample.time_s)

    def _rated(self, part: str, row: Row) -> Row:
        return row | {"rates": self._rates[part].of(row)} if part in self._rates else row

    # ---- tables

    def rows(self, part: str) -> list[Row]:
        """All rows of a part, with "rates": counter -> how many a second."""
        return list(self._rows[part].values())

    def page(self, part: str, wanted: Wanted) -> Listing:
        """A page of a part."""
        return listing(self._rows[part].values(), wanted, _NAMES[part])

    def queue(self, name: str) -> Row | None:
        """A queue by its name; None where there is none."""
        return self._rows["queues"].get(name)

    def exchange(self, name: str) -> Row | None:
        """An exchange by its name; None where there is none."""
        return self._rows["exchanges"].get(name)

    def connection(self, broker: str, client: str) -> Row | None:
        """A connection by its broker and its client's id; None where there is none."""
        return self._rows["connections"].get(f"{broker} {client}")

    def links(self, **of: Any) -> list[Row]:
        """The senders and receivers that have all these values: `role="receiver", queue="orders"`."""
        return [row for row in self._rows["links"].values() if all(row.get(name) == of[name] for name in of)]

    # ---- the whole

    def totals(self) -> dict[str, int]:
        """Sums over all queues: messages, available, acquired, delayed, bytes; and the age of the oldest message in
        milliseconds, as "age_ms"."""
        queues = self._rows["queues"].values()
        sums = {name: sum(queue.get(name, 0) for queue in queues) for name in SUMS}
        return sums | {"age_ms": max((queue.get("age_ms", 0) for queue in queues), default=0)}

    def rates(self) -> dict[str, float]:
        """Counter -> how many a second, over all queues."""
        sums: Counter[str] = Counter(dict.fromkeys(OF_QUEUES, 0.0))  # pyright: ignore[reportArgumentType]
        for queue in self._rows["queues"].values():
            sums.update(queue["rates"])
        return dict(sums)

    def churn(self) -> dict[str, float]:
        """What comes and goes at the brokers, a second: messages "received" and "unroutable", connections "opened" and
        "closed", "queues_declared" and "queues_deleted"."""
        return _together([row["rates"] for row in self._rows["brokers"].values()])

    def churned(self) -> dict[str, float]:
        """The same, since the brokers that are here began."""
        return _together(list(self._rows["brokers"].values()))

    def counts(self) -> dict[str, int]:
        """How many of what there are: queues, exchanges, brokers, connections, consumers."""
        counted = {part: len(self._rows[part]) for part in ("queues", "exchanges", "brokers", "connections")}
        return counted | {"consumers": sum(queue.get("consumers", 0) for queue in self._rows["queues"].values())}

    def chart(self, queue: str = "", span: str = MINUTES) -> dict[str, list[float]]:
        """The last minutes, hour or day (`history.SPANS_S`) of a queue, by its name, or of the whole cluster: series ->
        values (`history.SERIES`)."""
        if not queue:
            return self._whole.series(span)
        row = self.queue(queue)
        return self._histories.of(row["id"] if row else "", span)

    # ---- what only such a cluster has

    def members(self) -> list[Row]:
        """The actors: where they are, and whether they answer."""
        return [_member(actor) for actor in self._actors()]

    def locks(self) -> list[Row]:
        """Who owns each queue's consume lock: queue, owner, grant, handovers, consumers_at (broker -> consumers)."""
        return [
            {name: queue.get(name) for name in ("name", "owner", "grant", "handovers", "consumers", "consumers_at")}
            for queue in self._rows["queues"].values()
        ]

    def lock_moves(self, queue: str = "") -> list[LockMove]:
        """How locks have moved in the last minute, the newest first; of one queue, by its name, or of all."""
        return self._moves.lately(queue)

    def replicas(self, queue: str = "") -> list[Row]:
        """The replicas of a queue, by its id, or of all: who has it, how far it is behind the leader's log (`lag`, in
        entries; None where that is not known), its `state` (in step, behind, being brought up to date, missing), how
        far its last update came, and how many messages it has."""
        leading = self.leader()
        if leading is None:
            return []
        has: dict[tuple[str, str], Any] = {}
        for actor in self._actors():
            if isinstance(actor, ReplicaMember) and actor.machine is not UNSET:
                for key, one in actor.machine.items():
                    has[key, actor.name.partition(".")[0]] = one
        names = {row["id"]: row["name"] for row in self._rows["queues"].values()}
        found: list[Row] = []
        for key, stream in leading.streams.items():
            if key == CLUSTER or (queue and key != queue):
                continue
            for voter in sorted({*stream.voters, *stream.blank, *stream.missing, *stream.changing}):
                one = has.get((key, voter))
                lag = stream.lag.get(voter)
                state = _state(voter in stream.missing, voter in stream.blank, lag)
                row: Row = {"id": key, "queue": names.get(key, ""), "broker": voter, "lag": lag, "state": state}
                row |= {"replica": one.replica if one else "", "messages": one.messages if one else None}
                found.append(row | {"update": one.update.plain() if one and one.update else None})
        return found

    def leader(self) -> SequencerStatus | None:
        """The sequencer that leads; None while none says so."""
        leading = [
            actor.machine
            for actor in self._actors()
            if isinstance(actor, SequencerMember) and actor.alive and actor.machine and actor.machine.role == LEADING
        ]
        return max(leading, key=lambda one: one.ballot, default=None)

    def flow(self) -> Row:
        """Flow control: whether it is on in the cluster and for whom (`members`: member -> why), the queues that hold
        their senders back, and the connections that are held back, each with why."""
        leading = self.leader()
        members = {name: one.reason for name, one in leading.flow.items()} if leading is not None else {}
        return {
            "stopped": bool(leading and leading.flow_stopped),
            "stopped_count": leading.flow_stopped_count if leading else 0,
            "members": members,
            "queues": [queue for queue in self._rows["queues"].values() if queue.get("flowStopped")],
            "connections": [
                one for one in self._rows["connections"].values() if one.get("state") in ("flow", "blocked")
            ],
        }

    def event_table(self) -> Row | None:
        """What the tap says of the event table; None where no events are kept, or the tap says nothing."""
        taps = (actor for actor in self._actors() if isinstance(actor, TapMember) and actor.machine)
        return next((actor.machine.plain() for actor in taps if actor.machine), None)

    def _actors(self) -> Iterable[AnyMember]:
        return self.status.actors if self.status is not None else ()


def _of_connection(row: Mapping[str, Any]) -> str:
    return f"{row['broker']} {row['client']}"


def _of_link(row: Mapping[str, Any]) -> str:
    return f"{row['broker']} {row['client']} {row['handle']}"


def _of_group(row: Mapping[str, Any]) -> str:
    return f"{row['queue']} {row['group']}"


_KEYS = {
    "queues": lambda row: row["name"], "exchanges": lambda row: row["name"], "brokers": lambda row: row["broker"],
    "connections": _of_connection, "links": _of_link, "groups": _of_group,
}  # fmt: skip
_NAMES = {
    "queues": "name", "exchanges": "name", "brokers": "broker", "connections": "client", "links": "client",
    "groups": "group",
}  # fmt: skip
"""Part -> the field that is searched."""


def _together(brokers: list[Row]) -> dict[str, float]:
    """What each has counted of itself, added up; and what all have counted, by the one that has done so for longest."""
    sums: dict[str, float] = {name: sum(one.get(name, 0) for one in brokers) for name in OF_BROKERS}
    return sums | {name: max((one.get(name, 0) for one in brokers), default=0) for name in OF_ALL_QUEUES}


def _member(actor: AnyMember) -> Row:
    return {
        "name": actor.name, "role": actor.role, "alive": actor.alive, "host": actor.host, "node": actor.node,
        "pid": actor.pid, "address": actor.address, "loop": actor.loop, "version": actor.version or "",
        "clients": actor.clients or 0, "peers": list(actor.peers or ()), "error": actor.error or "",
    }  # fmt: skip


def _state(missing: bool, blank: bool, lag: int | None) -> str:
    if missing:
        return "missing"
    if blank:
        return "being brought up to date"
    return "behind" if lag else "in step"
