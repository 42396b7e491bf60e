"""The statistics of a cluster: what is a function of a stream is asked of one replica, which speaks for all; what each
broker alone knows, its connections, their consumers, what came to its exchanges, is asked of each broker and added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

import msgspec

from ..errors import INVALID, PeerError
from ..status.machines import BrokerStatus
from .cluster_state import ClusterState
from .command_arguments import NoArguments
from .fellows import Answers, Fellows
from .restraints import Restraints
from .session import ReceiverLink, SenderLink, Session, Traffic

Row = dict[str, Any]
PARTS = ("queues", "exchanges", "brokers", "connections", "links", "groups")
SENDER, RECEIVER = "sender", "receiver"
OF_QUEUES = frozenset({"queues", "brokers", "groups"})
"""Parts for which the queues are asked."""
MOST_CONNECTIONS = 1000
"""Of a broker, each told by itself: those that have sent most."""
MOST_LINKS = 1000
"""Likewise of its senders and receivers: those by which most has come or gone."""


def parts_of(wanted: Iterable[str]) -> list[str]:
    """The parts that are asked for; all, where none is named.

    Raises:
        PeerError: `invalid`, there is no such part.
    """
    named = list(wanted)
    for part in named:
        if part not in PARTS:
            raise PeerError(INVALID, f"there are no statistics of {part!r:.40}; there are of {', '.join(PARTS)}")
    return named or list(PARTS)


class LocalStatistics:
    """What this broker alone knows.

    Args:
        sessions: peer -> its session, of all connections.
        traffic: exchange -> what its senders here have sent.
        report: this broker's status.
        restraints: which of its clients are held back now.
        churn: what has come and gone since this process began -> how often.
    """

    def __init__(
        self, sessions: Mapping[str, Session], traffic: Mapping[str, Traffic], report: Callable[[], BrokerStatus],
        restraints: Callable[[], Restraints], churn: Callable[[], dict[str, int]],
    ) -> None:  # fmt: skip
        self._churn = churn
        self._sessions = sessions
        self._traffic = traffic
        self._report = report
        self._restraints = restraints

    def told(self, what: list[str]) -> Row:
        sessions = [session for session in self._sessions.values() if session.client]
        found: Row = {}
        if "queues" in what:
            found["consumers"] = Counter(link.queue for one in sessions for link in one.receivers.values())
        if "exchanges" in what:
            found["exchanges"] = {name: [cell.received, cell.unroutable] for name, cell in self._traffic.items()}
        if "connections" in what:
            restraints = self._restraints()
            rows = [_connection(session) | restraints.of(session) for session in sessions]
            found["connections"] = sorted(rows, key=lambda row: -row["sent"])[:MOST_CONNECTIONS]
        if "links" in what:
            found["links"] = _links(sessions)
        if "brokers" in what:
            status = self._report()
            found["broker"] = {
                "inc": status.inc, "connections": len(sessions),
                "senders": sum(len(session.senders) for session in sessions),
                "receivers": sum(len(session.receivers) for session in sessions),
                "received": sum(cell.received for cell in self._traffic.values()),
                "unroutable": sum(cell.unroutable for cell in self._traffic.values()),
                "uncommitted_bytes": status.uncommitted_bytes, "withheld_bytes": status.withheld_bytes, **self._churn(),
            }  # fmt: skip
        return found


def _connection(session: Session) -> Row:
    return {
        "client": session.client,
        "senders": len(session.senders),
        "receivers": len(session.receivers),
        "sent": sum(link.received for link in session.senders.values()),
        "credit": sum(link.credit for link in session.receivers.values()),
        "minor": session.minor,
        "rescue": session.rescue,
        "address": session.address,
        "since_ms": session.since_ms,
    }


def _links(sessions: list[Session]) -> list[Row]:
    """Senders and receivers. What a receiver was sent is told from its credit: nothing is counted as messages pass."""
    every: list[tuple[int, Session, SenderLink | ReceiverLink]] = []
    for session in sessions:
        every += ((link.received, session, link) for link in session.senders.values())
        every += ((link.granted - link.credit, session, link) for link in session.receivers.values())
    every.sort(key=itemgetter(0), reverse=True)
    return [_link(session, link) for _, session, link in every[:MOST_LINKS]]


def _link(session: Session, link: SenderLink | ReceiverLink) -> Row:
    row: Row = {"client": session.client, "handle": link.handle}
    if isinstance(link, SenderLink):
        to: Row = {"role": SENDER, "exchange": link.exchange, "key": link.key, "sender": link.name}
        return row | to | {"mandatory": link.mandatory, "sent": link.received}
    of: Row = {"role": RECEIVER, "queue": link.queue.rpartition("#")[0], **link.asked._asdict()}
    return row | of | {"waits": link.waits is not None, "credit": link.credit, "delivered": link.granted - link.credit}


def fellows_of(machine: Any) -> Fellows:
    """The others, as the broker whose door `machine` is asks them; it tells them what it knows itself."""
    restraints: Callable[[], Restraints] = lambda: Restraints(machine.cluster, machine.transfers)  # noqa: E731
    links, cluster = machine.connections, machine.cluster

    def churn() -> dict[str, int]:
        queues = {"queues_declared": cluster.declared, "queues_deleted": cluster.deleted}
        return {"opened": links.opened, "closed": links.closed} | queues

    local = LocalStatistics(machine.sessions, machine.senders.traffic, machine.report, restraints, churn)
    addresses: Callable[[], Mapping[str, str]] = lambda: machine.connections.addresses  # noqa: E731
    return Fellows(machine, machine.broker, machine.inc, addresses, local.told, machine.timing)


def gather(
    parts: list[str], cluster: ClusterState, fellows: Fellows,
    queues: Callable[[Callable[..., None], NoArguments], None], answer: Callable[..., None],
) -> None:  # fmt: skip
    """Ask who knows, and answer when all have told, or have had their time.

    Args:
        parts: of what.
        queues: asks for the descriptions of all queues.
    """
    asked: dict[str, Any] = {}

    def heard(what: str, value: Any) -> None:
        asked[what] = value
        if len(asked) == 2:
            answer(added_up(parts, cluster, fellows.addresses(), asked["queues"], *asked["brokers"]))

    fellows.ask(parts, lambda answers, silent: heard("brokers", (answers, silent)))
    if OF_QUEUES.intersection(parts):
        queues(lambda rows: heard("queues", rows), NoArguments())
    else:
        heard("queues", [])


def added_up(
    parts: list[str], cluster: ClusterState, addresses: Mapping[str, str], queues: list[Row], answers: Answers,
    silent: list[str],
) -> dict[str, list[Any]]:  # fmt: skip
    """The statistics.

    Args:
        parts: of what.
        addresses: broker -> client address.
        queues: the descriptions of all queues, where they were asked.
        answers: broker -> what it knows. silent: brokers that have not said it.
    """
    rows: dict[str, Callable[[], list[Row]]] = {
        "queues": lambda: _queues(cluster, queues, answers),
        "exchanges": lambda: _exchanges(cluster, answers),
        "brokers": lambda: _brokers(addresses, queues, answers, silent),
        "connections": lambda: [{"broker": b} | row for b, told in answers.items() for row in told["connections"]],
        # A broker of an older version tells of none.
        "links": lambda: [{"broker": b} | row for b, told in answers.items() for row in told.get("links", ())],
        "groups": lambda: [{"queue": q["name"]} | row for q in queues for row in q.get("groups", ())],
    }
    return {part: rows[part]() for part in parts} | {"silent": list(silent)}


def _queues(cluster: ClusterState, queues: list[Row], answers: Answers) -> list[Row]:
    bindings = Counter(binding.queue for binding in cluster.wiring.bindings())
    found: list[Row] = []
    for queue in queues:
        at = {broker: count for broker, told in answers.items() if (count := told["consumers"].get(queue["id"], 0))}
        counted = {"consumers": sum(at.values()), "consumers_at": at, "bindings": bindings[queue["name"]]}
        found.append(queue | counted)
    return found


def _exchanges(cluster: ClusterState, answers: Answers) -> list[Row]:
    bindings = Counter(binding.exchange for binding in cluster.wiring.bindings())
    found: list[Row] = []
    for exchange in cluster.wiring.exchanges():
        cells = [told["exchanges"].get(exchange.name, (0, 0)) for told in answers.values()]
        received, unroutable = (sum(cell[i] for cell in cells) for i in (0, 1))
        counted = {"received": received, "routed": received - unroutable, "unroutable": unroutable}
        plain: Row = msgspec.to_builtins(msgspec.structs.asdict(exchange))
        found.append(plain | {"bindings": bindings[exchange.name]} | counted)
    return found


def _brokers(addresses: Mapping[str, str], queues: list[Row], answers: Answers, silent: list[str]) -> list[Row]:
    owned = Counter(queue.get("owner", "") for queue in queues)
    unacked: Counter[str] = Counter()
    for queue in queues:
        unacked.update(queue.get("held_by", {}))
    told = {broker: answers[broker]["broker"] for broker in answers}
    told |= {broker: {"error": f"{broker} has not answered"} for broker in silent}
    return [
        {"broker": b, "address": addresses.get(b, ""), "unacked": unacked[b], "locks": owned[b]} | told[b]
        for b in sorted(told)
    ]
