"""The address book of a cluster: which actors there are, where, and how they are reached."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, replace
from typing import Any

from ...protocol.machine import EVENTS, broker_of, is_sequencer, store_of
from ..ray_control.ray_handles import Handle


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

    def peers_of_broker(self, broker: str) -> dict[str, str]:
        """The peers that a broker dials: the sequencers, the tap, and its store."""
        tap = {EVENTS: self[EVENTS].peers} if EVENTS in self and self[EVENTS].peers else {}
        return self.sequencers() | tap | self.store(broker)

    def store(self, broker: str) -> dict[str, str]:
        """The peer address of a broker's store, if it has one that listens."""
        name = store_of(broker)
        return {name: self[name].peers} if name in self and self[name].peers else {}

    def group(self, broker: str) -> list[str]:
        """A broker, its store and its replicas: they live and end together."""
        return [name for name in self if broker_of(name) == broker]

    def peers_of_replica(self, name: str) -> dict[str, str]:
        """The peers a new replica dials: sequencers, both Ownerships, tap, its broker and that one's store, replicas of
        other brokers."""
        broker = broker_of(name)
        found = self.sequencers() | self.store(broker)
        for other in (*self.of("Ownership"), EVENTS, broker):
            if other in self and self[other].peers:
                found[other] = self[other].peers
        for other in self.replicas():
            if broker_of(other) != broker and self[other].peers:
                found[other] = self[other].peers
        return found

    def places_of_brokers(self) -> list[tuple[str, str]]:
        """Ray node and host of each broker."""
        return [(entry.node, entry.host) for entry in self.values() if entry.role == "BrokerNode"]

    def half_started(self) -> list[str]:
        """Processes of which it is not known whether they listen: their Supervisor died while it started them."""
        return [name for name, entry in self.items() if not entry.peers]

    def serving(self) -> dict[str, str]:
        """Client addresses of the brokers that take clients."""
        return {name: entry.clients for name, entry in self.items() if entry.serving}


def is_broker(name: str) -> bool:
    return name[:1] == "b" and name[1:].isdigit()


def fresh() -> int:
    """A number for an incarnation: it rises with time (a newer one wins), its last seven bits are random. It is below
    2^53 for two thousand years, so exact also where numbers are floating-point ones."""
    return int(time.time() * 1000) << 7 | secrets.randbits(7)
