"""The plan of a cluster: the operator's choice, and its members. These change when a broker joins or leaves."""

from __future__ import annotations

from msgspec.structs import replace

from ..config import ClusterConfig, Config

BROKERS = 3
"""A cluster begins with so many, unless it is told otherwise."""


class Plan(Config, frozen=True, kw_only=True):
    """A cluster, as it is wanted. Its supervisor starts it from this, and every broker keeps a copy.

    Attributes:
        config: the operator's choice.
        members: the brokers' ids; b1 .. bn at the start.
        hosts: on how many it was begun.
        moving: who leaves when another has joined, so that brokers are spread, and how many there are to be.
        asked: how many brokers the operator has asked for; 0: as many as are stored, else those of `members`.
    """

    config: ClusterConfig = ClusterConfig()
    members: tuple[str, ...] = ()
    hosts: int = 1
    moving: tuple[str, int] = ("", 0)
    asked: int = 0

    @classmethod
    def of(cls, brokers: int, config: ClusterConfig | None = None, hosts: int = 1) -> Plan:
        """A cluster that begins with this number of brokers; 0: `BROKERS`, or as many as have a store."""
        members = tuple(f"b{number}" for number in range(1, (brokers or BROKERS) + 1))
        return cls(config=config or ClusterConfig(), members=members, hosts=hosts, asked=brokers)

    def joined_by(self, broker: str) -> Plan:
        """Raises:
        LocalError: there is no client port for one more.
        """
        members = self.members if broker in self.members else (*self.members, broker)
        self.config.check_ports(len(members))
        return replace(self, members=members)

    def left_by(self, broker: str) -> Plan:
        return replace(self, members=tuple(member for member in self.members if member != broker))

    def port(self, broker: str) -> int:
        """The client port of a broker; 0 for any."""
        first = self.config.client_port
        return first + number_of(broker) - 1 if first else 0


def number_of(broker: str) -> int:
    """Brokers are numbered, and a number is never used twice."""
    return int(broker[1:])
