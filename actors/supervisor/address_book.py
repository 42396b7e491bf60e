"""The address book of a cluster: which actors there are, where, and how they are reached."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, replace
from typing import Any

from ...protocol.errors import LocalError
from ...protocol.limits import DEFAULT, MESSAGE_BYTES
from ...protocol.machine import EVENTS, broker_of, is_sequencer
from ..ray_control.ray_handles import Handle


@dataclass(frozen=True)
class Plan:
    """What to start.

    Attributes:
        brokers: how many.
        token: what clients must present; "" admits everybody.
        slice_ms: an owner's time on a contended queue.
        spares: warm queue replicas per broker at the start.
        queue_actors_max: so many queue replicas per broker keep queues; if there are more, they are warm.
        client_port: brokers' client ports count up from here; 0 for any port.
        bind: host every listener binds; "" for the address Ray knows the node by.
        members: the brokers' ids; b1 .. bn at the start.
        events: directory or URL below which the event table is kept; "": no events.
        events_keep_s, events_keep_bytes: parts of it that are older, or beyond this size, go; 0: never.
        hosts: on how many it was begun.
        moving: who leaves when another has joined, so that brokers are spread, and how many there are to be.
        rebalance: brokers are spread over hosts by themselves, when one comes or comes back.
        program: Ray's id of the job whose end is the cluster's; "": it outlives whoever started it.
        message_bytes: of the largest message, encoded.
    """

    brokers: int = 3
    token: str = ""
    slice_ms: int = 20
    spares: int = 2
    queue_actors_max: int = 2
    client_port: int = 0
    bind: str = ""
    members: tuple[str, ...] = ()
    events: str = ""
    events_keep_s: float = 7 * 86400.0
    events_keep_bytes: int = 10 * 1024**3
    hosts: int = 1
    rebalance: bool = True
    moving: tuple[str, int] = ("", 0)
    program: str = ""
    message_bytes: int = DEFAULT.message_bytes

    def __post_init__(self) -> None:
        if self.brokers < 1:
            raise LocalError(f"a cluster has at least one broker, not {self.brokers}")
        if self.spares < 1 or self.queue_actors_max < 1:
            raise LocalError(
                f"a broker has at least one warm queue replica (spares) and one that keeps queues (queue_actors_max), "
                f"not {self.spares} and {self.queue_actors_max}"
            )
        if not 0 <= self.client_port <= 65536 - self.brokers:
            raise LocalError(
                f"{self.brokers} brokers' client ports cannot count up from {self.client_port}: name one of 1 to "
                f"{65536 - self.brokers:,}, or 0 for any free ones"
            )
        least, most = MESSAGE_BYTES
        if not least <= self.message_bytes <= most:
            raise LocalError(
                f"the largest message may have {least:,} to {most:,} bytes (a frame carries no more), not "
                f"{self.message_bytes:,}: send what is larger in pieces, or where it is kept"
            )
        if not self.members:
            object.__setattr__(self, "members", tuple(f"b{number}" for number in range(1, self.brokers + 1)))

    def joined_by(self, broker: str) -> Plan:
        members = self.members if broker in self.members else (*self.members, broker)
        return replace(self, brokers=len(members), members=members)

    def left_by(self, broker: str) -> Plan:
        members = tuple(member for member in self.members if member != broker)
        return replace(self, brokers=len(members), members=members)

    def port(self, broker: str) -> int:
        """The client port of a broker; 0 for any."""
        return self.client_port + number_of(broker) - 1 if self.client_port else 0


@dataclass(frozen=True)
class BookEntry:
    """A line of the address book.

    Attributes:
        serving: a broker that takes clients; one that has come back does so when it has rejoined.
        inc: its incarnation, 0 while it has not been started.
    """

    handle: Handle
    role: str
    node: str
    host: str
    pid: int = 0
    loop: str = ""
    peers: str = ""
    clients: str = ""
    serving: bool = False
    inc: int = 0


class AddressBook(dict[str, BookEntry]):
    """Entries by peer name."""

    def change(self, name: str, **values: Any) -> None:
        self[name] = replace(self[name], **values)

    def of(self, role: str) -> list[str]:
        return [name for name, entry in self.items() if entry.role == role]

    def replicas(self, broker: str = "") -> list[str]:
        """Queue replicas, all or one broker's."""
        return [name for name in self.of("QueueReplica") if broker in ("", broker_of(name))]

    def sequencers(self) -> dict[str, str]:
        """Peer addresses of those that listen."""
        return {name: entry.peers for name, entry in self.items() if is_sequencer(name) and entry.peers}

    def peers_of_broker(self) -> dict[str, str]:
        """Whom a broker dials: the sequencers and the tap."""
        tap = {EVENTS: self[EVENTS].peers} if EVENTS in self and self[EVENTS].peers else {}
        return self.sequencers() | tap

    def group(self, broker: str) -> list[str]:
        """A broker and its replicas: they live and end together."""
        return [name for name in self if broker_of(name) == broker]

    def peers_of_replica(self, name: str) -> dict[str, str]:
        """Whom a new replica dials: the sequencers, both Ownerships, the tap, its broker, replicas of other brokers."""
        broker = broker_of(name)
        found = self.sequencers()
        for other in (*self.of("Ownership"), EVENTS, broker):
            if other in self and self[other].peers:
                found[other] = self[other].peers
        for other in self.replicas():
            if broker_of(other) != broker and self[other].peers:
                found[other] = self[other].peers
        return found

    def half_started(self) -> list[str]:
        """Processes of which it is not known whether they listen: their Supervisor died while it started them."""
        return [name for name, entry in self.items() if not entry.peers]

    def serving(self) -> dict[str, str]:
        """Client addresses of the brokers that take clients."""
        return {name: entry.clients for name, entry in self.items() if entry.serving}


def is_broker(name: str) -> bool:
    return name[:1] == "b" and name[1:].isdigit()


def number_of(broker: str) -> int:
    """Brokers are numbered, and a number is never used twice."""
    return int(broker[1:])


def fresh() -> int:
    """A number for an incarnation: 48 bits, rising with time (a newer one wins), the last seven random."""
    return (int(time.time() * 1000) << 7 | secrets.randbits(7)) & ((1 << 48) - 1)
