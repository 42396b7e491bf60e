"""The status of a whole cluster: its members, and what is wrong, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from .alerts import AlertStatus
from .base import StatusStruct
from .members import AnyMember, MoveStatus, read_member


class SupervisorStatus(StatusStruct, kw_only=True):
    """The supervisor.

    Attributes:
        pid: its process, 0 when it is out of reach.
        host: address of its node.
        name: its actor's name.
        number: the higher one holds the office.
        confirmed: a majority of the brokers takes it for the supervisor.
    """

    pid: int = 0
    host: str = ""
    name: str
    number: int
    confirmed: bool = True


class LossStatus(StatusStruct, kw_only=True):
    """Streams that have no majority for the same reason.

    Attributes:
        streams: their ids, the wiring's among them.
        here: voters that are here and have them.
        blank: voters that have come back without them.
        missing_ms: voters that are out of reach -> for how long.
        for_ms: for how long they have had none.
        for_good: waiting does not help.
    """

    streams: list[str]
    here: list[str]
    blank: list[str]
    missing_ms: dict[str, int]
    for_ms: int
    for_good: bool


class MovedStatus(MoveStatus, kw_only=True):
    """The last move of a broker, by all that brokers have heard.

    Attributes:
        broker: its id.
    """

    broker: str


class ClusterStatus(StatusStruct, kw_only=True):
    """A cluster.

    Attributes:
        cluster: its id.
        namespace: that of Ray.
        stage: what it is doing, in words; "running" mostly.
        uptime_s: in seconds.
        brokers: all that are to be there.
        members: broker -> client address, of those that take clients.
        brokers_in_cluster, brokers_taking_clients: number of those.
        change: the broker that joins or leaves, "" for none.
        authenticated: clients must present a token.
        supervisor: the one that answers, or that brokers know of.
        healthy: nothing is wrong.
        unhealthy: all that is wrong, a reason each.
        lost: streams that have no majority.
        warnings: what is wrong though the cluster is healthy.
        alerts: both, in this order, each with its name and since when; none from a supervisor of an earlier version.
        moved: the last move of each broker, the latest first.
        actors: every member.
    """

    cluster: str
    namespace: str
    stage: str
    uptime_s: float
    brokers: list[str]
    members: dict[str, str]
    brokers_in_cluster: int
    brokers_taking_clients: int
    change: str = ""
    authenticated: bool
    supervisor: SupervisorStatus
    healthy: bool
    unhealthy: list[str]
    lost: list[LossStatus] = []
    warnings: list[str] = []
    moved: list[MovedStatus] = []
    alerts: list[AlertStatus] = []
    actors: list[AnyMember]

    def health(self) -> dict[str, Any]:
        """Whether all is well, and what is not, as plain values."""
        alerts = [alert.plain() for alert in self.alerts]
        return {"healthy": self.healthy, "unhealthy": self.unhealthy, "warnings": self.warnings, "alerts": alerts}

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Self:
        found = super().read({**plain, "actors": []})
        found.actors = [read_member(one) for one in plain.get("actors", ())]
        return found
