"""The consume lock's rotation among interested brokers (`design.md` section 5).

A broker is *interested* in a queue while one of its consumers there has credit. A queue has at most one *owner*. The
moves:

    un-owned + a broker interested          -> grant to the next interested broker
    owned + another broker interested       -> name the next owner to the owner (`Contended`)
    owner used its slice, or has no credit  -> the owner itself hands over to that next one (an `own` event of its own,
                                               behind all its acquires)
    owner has no credit, no next owner      -> the owner gives the lock up: un-owned

Next is the following interested broker in broker-id order, circularly. The log is the truth: a grant counts when its
`own` event applies (`queue/state.py`), and replicas report that with `OwnerIs`. An Ownership only remembers it. So
there can be two: one is on duty (`duty.py`) and makes the moves, the other hears the same and waits.
"""

from __future__ import annotations

from ..log.leader import LeaderView
from ..log.submitter import Submitter
from ..machine import OWNERSHIP, Effect, Flush, Input, PeerDown, PeerUp, Received, Send
from ..status.machines import OwnershipStatus
from ..supervisor.office import Commission, Office
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import ZERO, Ballot, Own, encode_event
from ..wire.log_frames import Heartbeat, HeartbeatReply, Request, Results, Supervised
from ..wire.queue_frames import Contended, Forget, Interest, OwnerIs, Void
from ..wire.version import MINOR

LOST = "?"
"""In place of the broker last named to an owner whose link has broken: it may not have heard, so it is told again."""


def broker_order(broker: str) -> tuple[int, str]:
    """Sort key that puts b2 before b10."""
    return len(broker), broker


def next_interested(interested: dict[str, str], after: str) -> str:
    """The interested broker that follows `after` in broker-id order, circularly; "" when no other broker is."""
    others = sorted((b for b in interested if b != after), key=broker_order)
    for broker in others:
        if broker_order(broker) > broker_order(after):
            return broker
    return others[0] if others else ""


class _Queue:
    """Attributes: interested (broker -> its replica's peer name), owner, grant, granting (the broker that our own event
    under way names), asked (number of the request with that event, 0 when it is answered), unheard (a replica's link
    changed since, so its report of that event may be lost), last (the owner before the lock was given up), told (grant
    and next owner last sent to the owner), renewed (brokers that have shown interest since they were last named)."""

    __slots__ = ("asked", "grant", "granting", "interested", "last", "owner", "renewed", "told", "unheard")

    def __init__(self) -> None:
        self.interested: dict[str, str] = {}
        self.owner = ""
        self.grant = 0
        self.granting = ""
        self.asked = 0
        self.unheard = False
        self.last = ""
        self.told: tuple[int, str] = (0, "")
        self.renewed: set[str] = set()


class OwnershipMachine:
    """Grants the consume lock of every queue.

    Args:
        inc: this incarnation, a fresh number.
        slice_ms: how long an owner may keep a contended queue.
        name: its peer name; its origin in requests.
        timing: the cluster's.

    Attributes:
        on_duty: whether it makes the moves now.
        day: ballot and turn of the heartbeat that last named the Ownership on duty.
    """

    def __init__(self, inc: int, slice_ms: int = 20, name: str = OWNERSHIP, timing: Timing = DEFAULT_TIMING) -> None:
        self.name = name
        self.on_duty = False
        self.day: tuple[Ballot, int] = (ZERO, -1)
        self.inc = inc
        self.slice_ms = slice_ms
        self.timing = timing
        self.view = LeaderView(timing)
        self.office = Office(timing)
        self._queues: dict[str, _Queue] = {}
        self.submitter = Submitter(name, inc)
        self._changed: dict[str, None] = {}

    def step(self, input: Input) -> list[Effect]:
        if type(input) is Received:
            frame = input.frame
            if type(frame) is Interest:
                self._interest(input.peer, frame)
            elif type(frame) is OwnerIs:
                self._held(frame)
            elif type(frame) is Results:
                for request in self.submitter.answered(frame):
                    self._answered(request)
            elif type(frame) is Forget:
                self._queues.pop(frame.queue, None)
            elif type(frame) is Void:
                self._void(frame)
            elif type(frame) is Supervised:
                self.office.learns(Commission(frame.number, frame.id, frame.name), 0)
            elif type(frame) is Heartbeat:
                return self._beat(input.peer, frame)
            return []
        if type(input) is Flush:
            return self._flush()
        if type(input) is PeerUp:
            if not self.view.up(input.peer):
                self._unheard()
        elif type(input) is PeerDown and not self.view.down(input.peer, 0):
            self._gone(input.peer)
        return []

    def _beat(self, peer: str, frame: Heartbeat) -> list[Effect]:
        """A sequencer leads: send it the requests that have no answer yet, once (B1)."""
        if not self.view.follow(peer, frame.ballot, 0):
            return []
        self._named(frame)
        effects: list[Effect] = [Send(peer, HeartbeatReply(frame.ballot, frame.number, self.name, self.inc, MINOR))]
        if not self.view.attached:
            self.view.attached = True
            effects += (Send(peer, request) for request in self.submitter.unanswered.values())
        return effects

    def _named(self, frame: Heartbeat) -> None:
        """The leader names the Ownership on duty. One that comes on duty knows neither the other's requests nor its
        advice to the owners."""
        day = frame.ballot, frame.turn
        if day < self.day:
            return
        before, self.day = self.on_duty, day
        self.on_duty = self.name == (frame.duty or OWNERSHIP)
        if self.on_duty and not before:
            for name, queue in self._queues.items():
                queue.granting, queue.asked, queue.unheard = "", 0, False
                queue.told = (queue.grant, LOST)
                self._changed[name] = None

    def _interest(self, peer: str, frame: Interest) -> None:
        queue = self._queues.setdefault(frame.queue, _Queue())
        if frame.interested:
            queue.interested[frame.broker] = peer
            queue.renewed.add(frame.broker)
        else:
            queue.interested.pop(frame.broker, None)
        self._changed[frame.queue] = None

    def _held(self, frame: OwnerIs) -> None:
        queue = self._queues.setdefault(frame.queue, _Queue())
        if frame.grant <= queue.grant:
            return
        queue.grant = frame.grant
        queue.last = queue.owner or queue.last
        queue.owner = frame.broker
        queue.granting = ""
        self._changed[frame.queue] = None

    def _void(self, frame: Void) -> None:
        queue = self._queues.get(frame.queue)
        if queue is not None and frame.grant == queue.grant + 1:
            if frame.broker not in queue.renewed:  # the broker shows interest again if it comes back
                queue.interested.pop(frame.broker, None)
            if queue.granting == frame.broker:
                queue.granting = ""
            self._changed[frame.queue] = None

    def _answered(self, request: Request) -> None:
        """Own events of this Ownership are committed; the replicas report whether they took effect."""
        for name, _ in request.parts:
            queue = self._queues.get(name)
            if queue is not None and queue.asked == request.number:
                queue.asked = 0
                if queue.unheard:
                    self._grant_anew(name, queue)

    def _unheard(self) -> None:
        """A replica's link breaks or comes back: its report of an own event may have been lost."""
        for name, queue in self._queues.items():
            if queue.granting and queue.asked:
                queue.unheard = True
            elif queue.granting:
                self._grant_anew(name, queue)

    def _grant_anew(self, name: str, queue: _Queue) -> None:
        """Have the lock granted again: if the grant before took effect after all, the new one is void, and replicas
        report the one before."""
        queue.granting = ""
        self._changed[name] = None

    def _gone(self, peer: str) -> None:
        self._unheard()
        for name, queue in self._queues.items():
            for broker in [b for b, p in queue.interested.items() if p == peer]:
                del queue.interested[broker]
                if broker == queue.owner:
                    queue.told = (queue.grant, LOST)
                self._changed[name] = None

    def _flush(self) -> list[Effect]:
        effects: list[Effect] = []
        changed, self._changed = self._changed, {}
        for name in changed if self.on_duty else ():
            queue = self._queues.get(name)
            if queue is not None:
                self._decide(name, queue, effects)
        request = self.submitter.gathered()
        if request is not None and self.view.attached:
            effects.append(Send(self.view.leader, request))
        return effects

    def _decide(self, name: str, queue: _Queue, effects: list[Effect]) -> None:
        if not queue.owner:
            if queue.granting or not queue.interested:
                return
            broker = next_interested(queue.interested, queue.last) or queue.last
            queue.granting = broker
            queue.asked = self.submitter.gather(name, encode_event(Own(broker, queue.grant + 1)))
            queue.unheard = False
            queue.renewed.discard(broker)
            return
        next_owner = next_interested(queue.interested, queue.owner)
        told = (queue.grant, next_owner)
        peer = queue.interested.get(queue.owner)
        if peer is not None and told != queue.told and (next_owner or queue.told[0] == queue.grant):
            queue.told = told
            queue.renewed.discard(next_owner)
            effects.append(Send(peer, Contended(name, queue.grant, next_owner, self.slice_ms, *self.day)))

    def report(self) -> dict[str, OwnershipStatus]:
        """Queue id -> its lock."""
        return {
            name: OwnershipStatus(
                owner=queue.owner, grant=queue.grant, interested=sorted(queue.interested, key=broker_order)
            )
            for name, queue in self._queues.items()
        }
