"""The wiring's snapshot: all that a broker which begins anew needs of the cluster stream up to one entry.

It travels as arrays, fields in their order, so programs of different versions read each other's: a field is only ever
appended, with a default; what is behind the last field that a program knows, here or in a row, is passed over. What an
older program leaves out has its default.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .definitions import Binding, ExchangeDefinition, QueueDefinition
from .node_patterns import NodePattern
from .queue_policies import QueuePolicy


class FlowSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """`ClusterFlow`: the members that are behind, each with its reason, and how often flow control has gone on."""

    members: list[tuple[str, str]] = []
    count: int = 0


class Holder(msgspec.Struct, frozen=True, array_like=True):
    """The `Commission` of the supervisor in office."""

    number: int = 0
    id: str = ""
    name: str = ""


class Use(msgspec.Struct, frozen=True, array_like=True):
    """A broker that uses the queue of that id."""

    queue: str
    broker: str
    inc: int


class Condemned(msgspec.Struct, frozen=True, array_like=True):
    """A `Condemn` that stands: the broker that asked, the number of its request, and the conditions."""

    queue: str
    broker: str
    inc: int
    number: int
    if_unused: bool
    if_empty: bool

    def asked_by(self, broker: str, inc: int, number: int) -> bool:
        return (self.broker, self.inc, self.number) == (broker, inc, number)


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A consumer that has the queue of that id alone: see `InUse`."""

    queue: str
    broker: str
    claim: str
    life: int


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """A consumer that is in line for the queue of that id: see `InUse`."""

    queue: str
    broker: str
    inc: int
    place: int
    claim: str
    life: int


class Presence(msgspec.Struct, frozen=True, array_like=True):
    """The connection of the client that has the queue of that id for itself: see `Exclusive`."""

    queue: str
    broker: str
    inc: int
    life: int


class ExclusivesSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """`Exclusives`: queue id and index of those whose client has gone, and of these the ids whose client said so; queue
    id and the latest connection of its client."""

    present: list[Presence] = []
    parted: list[tuple[str, int]] = []
    closed: list[str] = []
    lives: list[tuple[str, int]] = []


class UsesSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """`Uses`, where every use is known. `out`: brokers, each with the newest incarnation that is out; `lines`: those of
    each queue together, in their order."""

    users: list[Use] = []
    condemned: list[Condemned] = []
    out: list[tuple[str, int]] = []
    claims: list[Claim] = []
    lines: list[Standing] = []


class WiringSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """Attributes:
    uses: a `UsesSnapshot`, or empty where not every use is known.
    links: bindings to exchanges: what has the place of a queue's name in these is the exchange's.
    made: the index at which each of `exchanges` was declared, each of `bindings` and then of `links` was made; empty
        where that is not known.
    vacant: `Vacancies.since`, of the queues that have had consumers. idle: `IdleQueues.since`.
    dissolving: deleted queues of which messages are on their way (`dissolving.py`).
    redirects: `Redirects.of`, source and target.
    """

    queues: list[QueueDefinition]
    exchanges: list[ExchangeDefinition]
    bindings: list[Binding]
    flow: FlowSnapshot = FlowSnapshot()
    supervisor: Holder = Holder()
    uses: list[Any] = []
    links: list[Binding] = []
    made: list[int] = []
    vacant: list[tuple[str, int]] = []
    exclusives: ExclusivesSnapshot = ExclusivesSnapshot()
    dissolving: list[QueueDefinition] = []
    idle: list[tuple[str, int]] = []
    policies: list[QueuePolicy] = []
    patterns: list[NodePattern] = []
    redirects: list[tuple[str, str]] = []


class ClusterOutline(msgspec.Struct, frozen=True, array_like=True):
    """What the entries of the cluster stream have made at one broker: the outline of that stream's checkpoint.

    Attributes:
        wiring: a `WiringSnapshot`.
        queue_voters: queue id -> the voters when it was declared, by which a queue without a record yet is hosted.
    """

    wiring: list[Any]
    queue_voters: dict[str, list[str]] = {}
