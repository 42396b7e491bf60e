"""The plan of a cluster: how many brokers, with which options. It changes when a broker joins or leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...protocol.errors import LocalError
from ...protocol.limits import DEFAULT, MESSAGE_BYTES


@dataclass(frozen=True)
class Plan:
    """A cluster, as it is wanted.

    Attributes:
        brokers: how many.
        token: what clients must present; "" admits everybody.
        slice_ms: an owner's time on a contended queue.
        spares: warm queue replicas per broker at the start.
        queue_actors_max: at most this many queue replicas of a broker keep queues; further ones are warm.
        client_port: brokers' client ports count up from here; 0 for any port.
        bind: host every listener binds; "" for the address Ray knows the node by.
        members: the brokers' ids; b1 .. bn at the start.
        events: directory or URL below which the event table is kept; "": no events.
        events_keep_s, events_keep_bytes: parts of it that are older, or beyond this size, go; 0: never.
        hosts: on how many it was begun.
        moving: who leaves when another has joined, so that brokers are spread, and how many there are to be.
        rebalance: brokers are spread over hosts by themselves, when one comes or comes back.
        program: Ray's id of the job whose end is the cluster's; "": it outlives the program that started it.
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


def number_of(broker: str) -> int:
    """Brokers are numbered, and a number is never used twice."""
    return int(broker[1:])
