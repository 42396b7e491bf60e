"""The brokers that use each queue, and the queues that are condemned: as a pure function of the cluster stream.

A broker orders `InUse` for its first and for its last consumer of a queue (browsers do not count). A consumer may claim
a queue for itself alone: that is refused while any broker uses the queue, and all others are while the claim stands. So
two brokers never both admit one. A claim ends as its broker's use does; or it passes to a newer connection of the same
client, at whatever broker, since the older one has gone without a word.

Of a queue with a single active consumer every consumer is ordered, when it comes and when it has gone: they stand in
line, and the first one gets the messages.

To delete a queue on a condition, a broker orders `Condemn` first: with `if_unused` it stands only if no broker uses the
queue by then, and while it stands none begins to; with `if_empty` no broker completes transfers to the queue meanwhile.
It ends with the queue, with `Lift`, or with the incarnation of the broker that asked.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import msgspec

from ..errors import BUSY, IN_USE, NOT_FOUND
from ..wire.events import AnyEvent, Condemn, Evict, InUse, Lift, Member, Rejoin, Return
from .snapshot import Claim, Condemned, Standing, Use, UsesSnapshot


class Uses:
    """Attributes:
    users: queue id -> broker -> its incarnation.
    condemned: queue id -> the `Condemn` that stands.
    claims: queue id -> the consumer that has it alone.
    lines: queue id -> its consumers in line, where it has a single active one.
    whole: every use that was ordered is known. Not so where the wiring came from a program that does not know of uses,
        until `Recount`: such a broker takes a queue for unused that others know is used, and decides nothing.
    """

    def __init__(self) -> None:
        self.users: dict[str, dict[str, int]] = {}
        self.condemned: dict[str, Condemned] = {}
        self.claims: dict[str, Claim] = {}
        self.lines: dict[str, list[Standing]] = {}
        self.whole = True
        self._out: dict[str, int] = {}  # broker -> the newest incarnation that is out

    def order(self, event: InUse | Condemn | Lift, known: Container[str]) -> tuple[str, str]:
        """Apply an event; returns ("", "") or the code and text of why it has no effect. `known`: ids of the queues."""
        id, name = event.queue, event.queue.rpartition("#")[0]
        if id not in known:
            return NOT_FOUND, f"there is no queue {name!r}: declare it first"
        stands = self.condemned.get(id)
        if type(event) is Lift:
            if stands is not None and stands.asked_by(event.broker, event.inc, event.number):
                del self.condemned[id]
            return "", ""
        if self.is_out(event.broker, event.inc):
            return BUSY, "this incarnation is over"
        if type(event) is InUse:
            return self._stand(event, stands) if event.place else self._use(event, stands)
        assert type(event) is Condemn
        if stands is not None:
            return BUSY, f"queue {name!r} is being deleted by another: ask again"
        if event.if_unused and self.whole and self.users.get(id):
            at = ", ".join(sorted(self.users[id]))
            return IN_USE, f"queue {name!r} has consumers (at {at}): cancel them or delete without if_unused"
        self.condemned[id] = Condemned(id, event.broker, event.inc, event.number, event.if_unused, event.if_empty)
        return "", ""

    def _use(self, event: InUse, stands: Condemned | None) -> tuple[str, str]:
        users = self.users.get(event.queue, {})
        claim = self.claims.get(event.queue)
        if not event.on:
            users.pop(event.broker, None)
            if not users:
                self.users.pop(event.queue, None)
            if claim is not None and claim.broker == event.broker:
                del self.claims[event.queue]
            return "", ""
        if stands is not None and stands.if_unused:
            return BUSY, "it is being deleted: wait for what comes of it"
        wanted = Claim(event.queue, event.broker, event.claim, event.life)
        if claim is not None and claim != wanted:
            if claim.claim != event.claim or claim.life >= event.life:
                return IN_USE, alone(event.queue, claim.broker)
            users.pop(claim.broker, None)
        elif claim is None and event.claim and users:
            return IN_USE, shared(event.queue, users)
        if event.claim:
            self.claims[event.queue] = wanted
        self.users.setdefault(event.queue, {})[event.broker] = event.inc
        return "", ""

    def _stand(self, event: InUse, stands: Condemned | None) -> tuple[str, str]:
        line = self.lines.get(event.queue, [])
        one = Standing(event.queue, event.broker, event.inc, event.place, event.claim, event.life)
        if not event.on:
            line = [other for other in line if (other.broker, other.place) != (event.broker, event.place)]
        elif stands is not None and stands.if_unused:
            return BUSY, "it is being deleted: wait for what comes of it"
        elif one not in line:
            older = next((n for n, other in enumerate(line) if event.life and other.claim == event.claim), None)
            if older is None:
                line = [*line, one]
            elif line[older].life < event.life:
                line = [*line[:older], one, *line[older + 1 :]]
            else:
                return IN_USE, f"its client has come back at {line[older].broker}, and goes on there"
        self._line_up(event.queue, line)
        return "", ""

    def _line_up(self, id: str, line: list[Standing]) -> None:
        self.lines[id], self.users[id] = line, {one.broker: one.inc for one in line}
        if not line:
            del self.lines[id], self.users[id]

    def first(self, id: str) -> Standing | None:
        """The consumer that gets the messages of a queue, where one at a time does."""
        return self.lines[id][0] if id in self.lines else None

    def is_out(self, broker: str, inc: int) -> bool:
        """Whether that incarnation of the broker is out."""
        return inc <= self._out.get(broker, -1)

    def confirms(self, id: str, broker: str, inc: int, number: int) -> bool:
        """Whether the `Condemn` of that broker, inc and number stands for the queue."""
        stands = self.condemned.get(id)
        return stands is not None and stands.asked_by(broker, inc, number)

    def forget(self, id: str) -> None:
        """The queue is gone."""
        self.users.pop(id, None)
        self.condemned.pop(id, None)
        self.claims.pop(id, None)
        self.lines.pop(id, None)

    def ends(self, event: AnyEvent) -> None:
        """Incarnations of a broker may be out: they use no queue any more, and the queues they condemned stay."""
        ended = ended_by(event)
        if ended is None:
            return
        broker, inc = ended
        inc = self._out[broker] = max(inc, self._out.get(broker, -1))
        for id, line in list(self.lines.items()):
            self._line_up(id, [one for one in line if one.broker != broker or one.inc > inc])
        for id, users in list(self.users.items()):
            if users.get(broker, inc + 1) <= inc:
                del users[broker]
                if not users:
                    del self.users[id]
                if (claim := self.claims.get(id)) is not None and claim.broker == broker:
                    del self.claims[id]
        for id, stands in list(self.condemned.items()):
            if stands.broker == broker and stands.inc <= inc:
                del self.condemned[id]

    def snapshot(self) -> list[Any]:
        """A `UsesSnapshot` as msgpack carries it; empty unless `whole`."""
        if not self.whole:
            return []
        users = [Use(id, broker, inc) for id in sorted(self.users) for broker, inc in sorted(self.users[id].items())]
        condemned = [self.condemned[id] for id in sorted(self.condemned)]
        claims = [self.claims[id] for id in sorted(self.claims)]
        lines = [one for id in sorted(self.lines) for one in self.lines[id]]
        return msgspec.to_builtins(UsesSnapshot(users, condemned, sorted(self._out.items()), claims, lines))

    @classmethod
    def restore(cls, snapshot: list[Any]) -> Uses:
        """Raises ValueError: this is no snapshot."""
        uses = cls()
        uses.whole = bool(snapshot)
        was = msgspec.convert(snapshot, UsesSnapshot)
        for use in was.users:
            uses.users.setdefault(use.queue, {})[use.broker] = use.inc
        uses.condemned = {one.queue: one for one in was.condemned}
        uses._out = dict(was.out)
        uses.claims = {one.queue: one for one in was.claims}
        for one in was.lines:
            uses.lines.setdefault(one.queue, []).append(one)
        return uses


def ended_by(event: AnyEvent) -> tuple[str, int] | None:
    """The broker whose incarnations up to this one are out by that event; None: none is."""
    if type(event) is Evict:
        return event.broker, event.inc
    if type(event) is Rejoin:
        return event.voter, event.inc - 1
    if type(event) is Return:
        return event.voter, event.life - 1
    if type(event) is Member:
        return event.broker, event.inc - event.present
    return None


def alone(id: str, at: str) -> str:
    """Why a queue takes no more consumers: one of them, at a broker, has it alone."""
    return (
        f"queue {id.rpartition('#')[0]!r} is one consumer's alone (exclusive, at {at}): wait until that goes, or browse"
    )


def shared(id: str, at: Iterable[str]) -> str:
    """Why no consumer may have a queue alone: others, at these brokers, consume."""
    name, where = id.rpartition("#")[0], ", ".join(sorted(at))
    return (
        f"queue {name!r} has consumers already (at {where}): an exclusive receiver has a queue to itself, so close the "
        "others first"
    )
