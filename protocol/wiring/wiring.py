"""The wiring: exchanges, queues and bindings, as a pure function of the cluster stream.

Every broker applies the same events and so routes alike; a refused event is refused everywhere. Declaring a queue or
exchange again changes nothing; declaring it differently is refused, so the same name declared on two brokers at once
ends in one definition; a declaration without an alternate exchange agrees with any. A queue's id carries the index of
the event that declared it: a queue deleted and declared again is another.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import BUSY, IN_USE, INVALID, NOT_ALLOWED, NOT_FOUND, LocalError, PeerError
from ..limits import DEFAULT
from ..supervisor.office import NOBODY, Commission
from ..wire.deletion_events import Dissolved
from ..wire.events import (
    AnyEvent,
    Bind,
    Condemn,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Exclusive,
    InUse,
    Lift,
    Lost,
    Recount,
    Supervise,
    Unbind,
)
from ..wire.pattern_events import DropPattern, PutPattern
from ..wire.policy_events import DropPolicy, PutPolicy
from ..wire.redirect_events import Redirect
from ..wire.settings import read
from .beginnings import begun
from .cluster_flow import ClusterFlow
from .definitions import (
    STANDARD,
    Binding,
    ExchangeDefinition,
    QueueDefinition,
    canonical,
    check_arguments,
    check_name,
    check_same,
    standard,
)
from .dissolving import Dissolving
from .endings import check_alternate, end, unused
from .exchanges import Exchange, check_exclusive, check_match, place_of
from .exclusives import Exclusives, check_owner
from .idle_queues import IdleQueues, sooner
from .inventory import Inventory
from .node_patterns import NodePatterns
from .queue_policies import QueuePolicies
from .redirects import Redirects
from .relays import check_no_ring, relayed, relays_to
from .settings import BindingSettings
from .snapshot import Holder, WiringSnapshot
from .uses import Uses
from .vacancies import Vacancies


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a wiring event.

    Attributes:
        code: "" for success, else an error code, with its text.
        changed: whether the event changed the wiring.
        queue: the queue that the event declared or deleted, if any.
        gone: names of the exchanges that it deleted.
        otherwise: the queues that it changed, as they are now.
    """

    code: str = ""
    text: str = ""
    changed: bool = False
    queue: QueueDefinition | None = None
    gone: tuple[str, ...] = ()
    otherwise: tuple[QueueDefinition, ...] = ()


class Wiring(Inventory):
    """All exchanges, queues and bindings.

    Attributes:
        flow: whether flow control is on in the cluster.
        supervisor: the supervisor in office.
        uses: the brokers that use each queue.
        policies: what queues get by their names.
        patterns: of names, of queues and exchanges that are made when somebody attaches to them.
        redirects: queues whose messages come into others.
        vacancies, idle: the queues that go by themselves, and since when nobody uses them.
        exclusives: the queues that one client has for itself, and whether that is connected.
        dissolving: deleted queues of which messages are on their way to their alternates.
    """

    def __init__(self) -> None:
        self.flow = ClusterFlow()
        self.supervisor = NOBODY
        self.uses = Uses()
        self.policies, self.patterns, self.redirects = QueuePolicies(), NodePatterns(), Redirects()
        self.vacancies, self.idle = Vacancies(), IdleQueues()
        self.exclusives = Exclusives()
        self.dissolving = Dissolving()
        super().__init__()
        self._exchanges = {definition.name: Exchange(definition) for definition in STANDARD}

    # ---- applying events

    def apply(self, event: AnyEvent, index: int, brokers: Iterable[str] = ()) -> Outcome:
        """Apply the event at `index` of the cluster stream, where `brokers` are its members. Never raises for a
        client's wrong request: an exception here would end every broker at the same event."""
        try:
            match event:
                case DeclareQueue():
                    outcome = self._declare_queue(event, index)
                case DeleteQueue():
                    outcome = self._delete_queue(event)
                case Dissolved() | Lost() if event.queue in self.dissolving:
                    outcome = Outcome(changed=True, queue=self.dissolving.end(event))
                case Lost():
                    known = self._by_id.get(event.queue)
                    if known is None or (known.durable and not event.even_durable):
                        return Outcome()
                    outcome = self._delete_queue(DeleteQueue(known.name), lost=True)
                case DeclareExchange():
                    outcome = self._declare_exchange(event, index)
                case DeleteExchange():
                    outcome = self._delete_exchange(event)
                case Bind():
                    outcome = self._bind(event, index)
                case Unbind():
                    outcome = self._unbind(event)
                case Redirect():
                    outcome = self._redirect(event)
                case Supervise():
                    if event.number > self.supervisor.number:
                        self.supervisor = Commission(event.number, event.id, event.name)
                    return Outcome()
                case InUse() | Condemn() | Lift():
                    code, text = self.uses.order(event, self._by_id)
                    self._look(index, event.queue)
                    return Outcome(code, text)
                case PutPolicy() | DropPolicy():
                    outcome = self._policy(event, index, brokers)
                case PutPattern() | DropPattern():
                    outcome = Outcome(changed=self.patterns.order(event))
                case Exclusive():
                    self.exclusives.order(event, index, self.uses.is_out)
                    return Outcome()
                case Recount():
                    self.uses.whole = True
                    return Outcome()
                case _:
                    self.flow.apply(event)
                    self.uses.ends(event)
                    self._look(index)
                    self.exclusives.ends(index, self.uses.is_out)
                    return Outcome()
        except PeerError as error:
            return Outcome(error.code, error.text)
        if outcome.changed:
            self._cache.clear()
        return outcome

    def _look(self, index: int, queue: str = "") -> None:
        """The event at `index` may have changed who uses that queue; "": any."""
        self.vacancies.look(self.uses.users, index, queue)
        self.idle.look(self.uses.users, index, queue)

    def _declare_queue(self, event: DeclareQueue, index: int) -> Outcome:
        check_name("queue", event.name)
        check_arguments(event.arguments)
        declared = event.arguments, event.durable, event.alternate, event.client
        wanted = QueueDefinition(f"{event.name}#{index}", event.name, *declared)
        known = self._queues.get(event.name)
        if known is not None:
            check_owner(known, event.client)
            check_same("queue", known, wanted, ("arguments", "durable", "alternate"))
            self.idle.used(known, index)
            if known.client:
                self.exclusives.begin(known, event, index, self.uses.is_out)
            return Outcome(queue=known)
        check_alternate(self._exchanges, event.alternate)
        if not relayed(wanted):
            wanted = self.policies.onto(wanted, self._may_be_alternate)
        self._put(wanted)
        self.vacancies.declared(wanted)
        self.idle.declared(wanted)
        self.idle.used(wanted, index)
        self.exclusives.declared(wanted)
        if wanted.client:
            self.exclusives.begin(wanted, event, index, self.uses.is_out)
        return Outcome(changed=True, queue=wanted)

    def _delete_queue(self, event: DeleteQueue, lost: bool = False) -> Outcome:
        known = self._queues.get(event.name)
        if event.id and (known is None or known.id != event.id):
            return Outcome()
        left = (event.id, event.vacant)
        if event.vacant and left not in self.left() and not (event.broker and left in self.vacancies.waits_if_empty()):
            return Outcome()
        if known is None:
            raise PeerError(NOT_FOUND, f"there is no queue {event.name!r} to delete")
        self._check_asker(event.name, event.client)
        if event.broker and not self.uses.confirms(known.id, event.broker, event.inc, event.number):
            raise PeerError(BUSY, f"whether queue {event.name!r} may be deleted was not decided in time: ask again")
        of = [exchange.definition.name for exchange in self._exchanges.values() if exchange.relay == event.name]
        if of and not lost:
            raise PeerError(NOT_ALLOWED, f"queue {event.name!r} belongs to exchange {of[0]!r}, and goes with it")
        self.dissolving.begin(known, event)
        self._drop(known)
        for source in self.redirects.forget(event.name):
            self._lead(source, source)
        self.uses.forget(known.id)
        self.vacancies.forget(known.id)
        self.idle.forget(known.id)
        self.exclusives.forget(known)
        less = [exchange for exchange in self._exchanges.values() if exchange.unbind(event.name)]
        return Outcome(changed=True, queue=known, gone=end(self._exchanges, [*of, *unused(less)]))

    def _policy(self, event: PutPolicy | DropPolicy, index: int, brokers: Iterable[str]) -> Outcome:
        queues = [queue for queue in self.queues() if not relayed(queue)]
        otherwise = self.policies.changed(event, index, queues, self._may_be_alternate, brokers)
        for queue in otherwise or ():
            self._queues[queue.name] = self._by_id[queue.id] = queue
            self.idle.changed(queue, self.uses.users, index)
        return Outcome(changed=otherwise is not None, otherwise=tuple(otherwise or ()))

    def _declare_exchange(self, event: DeclareExchange, index: int) -> Outcome:
        check_arguments(event.arguments)
        wanted = ExchangeDefinition(event.name, event.type, event.arguments, event.durable, event.alternate)
        known = self._exchanges.get(event.name)
        if known is not None:
            fields = ("type",) if standard(event.name) else ("type", "arguments", "durable", "alternate")
            check_same("exchange", known.definition, wanted, fields)
            return Outcome()
        new = begun(wanted, index, self._exchanges, self._queues)
        self._exchanges[event.name] = new
        return Outcome(changed=True)

    def _delete_exchange(self, event: DeleteExchange) -> Outcome:
        if standard(event.name):
            raise PeerError(NOT_ALLOWED, f"exchange {event.name!r} is a standard one and stays")
        if event.name not in self._exchanges:
            raise PeerError(NOT_FOUND, f"there is no exchange {event.name!r} to delete")
        users = [q.name for q in self._queues.values() if q.alternate == event.name]
        users += [e.definition.name for e in self._exchanges.values() if e.definition.alternate == event.name]
        users += self.dissolving.of_alternate(event.name)
        if users:
            raise PeerError(IN_USE, f"exchange {event.name!r} is the alternate of {', '.join(sorted(users))}")
        return Outcome(changed=True, gone=end(self._exchanges, [event.name]))

    def _bind(self, event: Bind, index: int) -> Outcome:
        exchange = self._bindable(event)
        self._check_asker(event.queue, event.client)
        check_arguments(event.arguments)
        if len(event.key) > DEFAULT.name_chars:
            raise PeerError(INVALID, f"a binding key has at most {DEFAULT.name_chars} characters")
        if exchange.definition.type == "headers":
            check_match(event.arguments.get("x-match", "all"))
        if event.to_exchange:
            check_no_ring(self._exchanges, event.exchange, event.to_exchange)
        to_exchange = bool(event.to_exchange)
        binding = Binding(event.exchange, event.to_exchange or event.queue, event.key, event.arguments)
        if exchange.settings.exclusive or read(BindingSettings, event.arguments).exclusive:
            check_exclusive(exchange.definition.type)
            if exchange.at(event.key) == [(to_exchange, place_of(binding))]:
                return Outcome()
            exchange.clear(event.key)
        bind = exchange.link if to_exchange else exchange.bind
        return Outcome(changed=bind(binding, index))

    def _unbind(self, event: Unbind) -> Outcome:
        exchange = self._bindable(event)
        self._check_asker(event.queue, event.client)
        if event.to_exchange:
            what, there = f"exchange {event.to_exchange!r}", exchange.unlink(event.to_exchange, event.key)
        else:
            what, there = f"queue {event.queue!r}", exchange.unbind(event.queue, event.key)
        if not there:
            raise PeerError(NOT_FOUND, f"{what} is not bound to {event.exchange!r} by key {event.key!r}")
        return Outcome(changed=True, gone=end(self._exchanges, unused([exchange])))

    def _redirect(self, event: Redirect) -> Outcome:
        for name in (event.source, event.target):
            self._check_asker(name, event.client)
        changed = self.redirects.order(event, self._queues)
        if changed:
            self._lead(event.source, event.target or event.source)
        return Outcome(changed=changed)

    def _bindable(self, event: Bind | Unbind) -> Exchange:
        if event.exchange == "":
            raise PeerError(NOT_ALLOWED, "the default exchange is bound to every queue by its name and not otherwise")
        for name in (event.exchange, event.to_exchange):
            if name and name not in self._exchanges:
                raise PeerError(NOT_FOUND, f"there is no exchange {name!r}: declare it first")
        if event.to_exchange and event.queue:
            raise PeerError(INVALID, "a binding leads to a queue or to an exchange: name one of them")
        if not event.to_exchange and event.queue not in self._queues:
            raise PeerError(NOT_FOUND, f"there is no queue {event.queue!r}: declare it first")
        if not event.to_exchange and (of := relayed(self._queues[event.queue])):
            raise PeerError(NOT_ALLOWED, f"queue {event.queue!r} belongs to exchange {of!r}: bind that exchange")
        return self._exchanges[event.exchange]

    # ---- queries

    def left(self) -> dict[tuple[str, int], float]:
        """(id of a queue that goes by itself, index of the event since which it may) -> seconds that it waits; but for
        those that go if they are empty."""
        return sooner(self.vacancies.waits(), self.idle.waits(), self.exclusives.waits())

    def kept(self, id: str) -> QueueDefinition | None:
        """Of a queue whose stream is kept: one that is there, or that is deleted and not empty yet."""
        return self._by_id.get(id) or self.dissolving.get(id)

    def all_kept(self) -> list[QueueDefinition]:
        return self.queues() + self.dissolving.snapshot()

    def relays_to(self, exchange: str) -> list[str]:
        """Ids of the queues from which messages may go on to that exchange's bindings."""
        return relays_to(self._exchanges, self._queues, exchange)

    def snapshot(self) -> list[Any]:
        """Everything, in a canonical form that msgpack can carry: equal snapshots mean equal wiring."""
        of_uses = self.uses.snapshot()
        now = WiringSnapshot(
            self.queues(), self.exchanges(), self.bindings(), self.flow.snapshot(), Holder(*self.supervisor), of_uses,
            self.links(), self.made(), self.vacancies.snapshot(), self.exclusives.snapshot(),
            self.dissolving.snapshot(), self.idle.snapshot(), self.policies.snapshot(),
            self.patterns.snapshot(), self.redirects.snapshot(),
        )  # fmt: skip
        return msgspec.to_builtins(now, builtin_types=(bytes,))

    @classmethod
    def restore(cls, snapshot: list[Any]) -> Wiring:
        """The wiring in a snapshot, of a program of any version.

        Raises:
            LocalError: this is no snapshot.
        """
        wiring = cls()
        try:
            was = msgspec.convert(snapshot, WiringSnapshot)
            for queue in was.queues:
                wiring._put(queue)
            made = iter(was.made)
            wiring._exchanges = {one.name: Exchange(one, since=next(made, 0)) for one in was.exchanges}
            for binding in was.bindings:
                wiring._exchanges[binding.exchange].bind(binding, next(made, 0))
            for binding in was.links:
                wiring._exchanges[binding.exchange].link(binding, next(made, 0))
            wiring.flow = ClusterFlow.restore(was.flow)
            wiring.supervisor = Commission(was.supervisor.number, was.supervisor.id, was.supervisor.name)
            wiring.uses = Uses.restore(was.uses)
            wiring.policies = QueuePolicies.restore(was.policies)
            wiring.patterns = NodePatterns.restore(was.patterns)
            wiring.redirects = Redirects.restore(was.redirects)
            wiring._lead_all(was.redirects)
            wiring.vacancies = Vacancies.restore(was.queues, was.vacant)
            wiring.idle = IdleQueues.restore(was.queues, was.idle)
            wiring.exclusives = Exclusives.restore(was.queues, was.exclusives)
            wiring.dissolving = Dissolving.restore(was.dissolving)
        except (ValueError, KeyError) as error:
            raise LocalError(
                f"a wiring snapshot has what `WiringSnapshot` names, in that order, as `snapshot` gives it: {error!r}"
            ) from None
        return wiring

    def digest(self) -> int:
        return zlib.crc32(canonical(self.snapshot()))
