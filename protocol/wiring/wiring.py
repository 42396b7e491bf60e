"""The wiring: exchanges, queues and bindings, as a pure function of the cluster stream.

Every broker applies the same events and so routes alike; a refused event is refused everywhere. Declaring a queue or
exchange again changes nothing; declaring it differently is refused, so the same name declared on two brokers at once
ends in one definition; a declaration without an alternate exchange agrees with any. A queue's id carries the index of
the event that declared it: a queue deleted and declared again is another.
"""

from __future__ import annotations

import unicodedata
import zlib
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..errors import BUSY, EXISTS, IN_USE, INVALID, NOT_ALLOWED, NOT_FOUND, LocalError, PeerError
from ..limits import DEFAULT
from ..supervisor.office import NOBODY, Commission
from ..wire.events import (
    AnyEvent,
    Bind,
    Condemn,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    InUse,
    Lift,
    Lost,
    Recount,
    Supervise,
    Unbind,
)
from .cluster_flow import ClusterFlow
from .topics import TopicIndex
from .uses import Uses

TYPES = ("direct", "topic", "fanout", "headers")
ROUTES_CACHED = 65_536


class QueueDefinition(msgspec.Struct, frozen=True):
    id: str
    name: str
    arguments: dict[str, Any]
    durable: bool = False
    alternate: str = ""


class ExchangeDefinition(msgspec.Struct, frozen=True):
    name: str
    type: str
    arguments: dict[str, Any]
    durable: bool = False
    alternate: str = ""


class Binding(msgspec.Struct, frozen=True):
    exchange: str
    queue: str
    key: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a wiring event.

    Attributes:
        code: "" for success, else an error code, with its text.
        changed: whether the event changed the wiring.
        queue: the queue that the event declared or deleted, if any.
    """

    code: str = ""
    text: str = ""
    changed: bool = False
    queue: QueueDefinition | None = None


STANDARD = (
    ExchangeDefinition("", "direct", {}, True),
    ExchangeDefinition("amq.direct", "direct", {}, True),
    ExchangeDefinition("amq.fanout", "fanout", {}, True),
    ExchangeDefinition("amq.headers", "headers", {}, True),
    ExchangeDefinition("amq.match", "headers", {}, True),
    ExchangeDefinition("amq.topic", "topic", {}, True),
)


@dataclass(slots=True)
class _Exchange:
    definition: ExchangeDefinition
    bindings: dict[tuple[str, str, bytes], Binding] = field(default_factory=dict)  # (queue name, key, arguments)
    direct: dict[str, list[str]] | None = None  # key -> queue names, built when first needed
    topics: TopicIndex | None = None

    def changed(self) -> None:
        self.direct = None
        self.topics = None


class Wiring:
    """All exchanges, queues and bindings.

    Attributes:
        flow: whether flow control is on in the cluster.
        supervisor: the supervisor in office.
        uses: the brokers that use each queue.
    """

    def __init__(self) -> None:
        self.flow = ClusterFlow()
        self.supervisor = NOBODY
        self.uses = Uses()
        self._queues: dict[str, QueueDefinition] = {}
        self._by_id: dict[str, QueueDefinition] = {}
        self._exchanges = {definition.name: _Exchange(definition) for definition in STANDARD}
        self._cache: dict[tuple[str, str], tuple[str, ...]] = {}

    # ---- applying events

    def apply(self, event: AnyEvent, index: int) -> Outcome:
        """Apply the event at `index` of the cluster stream. Never raises for a client's wrong request: an exception
        here would end every broker at the same event."""
        try:
            match event:
                case DeclareQueue():
                    outcome = self._declare_queue(event, index)
                case DeleteQueue():
                    outcome = self._delete_queue(event)
                case Lost():
                    known = self._by_id.get(event.queue)
                    outcome = self._delete_queue(DeleteQueue(known.name)) if known is not None else Outcome()
                case DeclareExchange():
                    outcome = self._declare_exchange(event)
                case DeleteExchange():
                    outcome = self._delete_exchange(event)
                case Bind():
                    outcome = self._bind(event)
                case Unbind():
                    outcome = self._unbind(event)
                case Supervise():
                    if event.number > self.supervisor.number:
                        self.supervisor = Commission(event.number, event.id, event.name)
                    return Outcome()
                case InUse() | Condemn() | Lift():
                    return Outcome(*self.uses.order(event, self._by_id))
                case Recount():
                    self.uses.whole = True
                    return Outcome()
                case _:
                    self.flow.apply(event)
                    self.uses.ends(event)
                    return Outcome()
        except PeerError as error:
            return Outcome(error.code, error.text)
        if outcome.changed:
            self._cache.clear()
        return outcome

    def _declare_queue(self, event: DeclareQueue, index: int) -> Outcome:
        _check_name("queue", event.name)
        _check_arguments(event.arguments)
        wanted = QueueDefinition(f"{event.name}#{index}", event.name, event.arguments, event.durable, event.alternate)
        known = self._queues.get(event.name)
        if known is not None:
            _check_same("queue", known, wanted, ("arguments", "durable", "alternate"))
            return Outcome(queue=known)
        self._check_alternate(event.alternate)
        self._queues[event.name] = self._by_id[wanted.id] = wanted
        return Outcome(changed=True, queue=wanted)

    def _delete_queue(self, event: DeleteQueue) -> Outcome:
        known = self._queues.get(event.name)
        if known is None:
            raise PeerError(NOT_FOUND, f"there is no queue {event.name!r} to delete")
        if event.broker and not self.uses.confirms(known.id, event.broker, event.inc, event.number):
            raise PeerError(BUSY, f"whether queue {event.name!r} may be deleted was not decided in time: ask again")
        del self._queues[event.name]
        del self._by_id[known.id]
        self.uses.forget(known.id)
        for exchange in self._exchanges.values():
            gone = [key for key in exchange.bindings if key[0] == event.name]
            for key in gone:
                del exchange.bindings[key]
            if gone:
                exchange.changed()
        return Outcome(changed=True, queue=known)

    def _declare_exchange(self, event: DeclareExchange) -> Outcome:
        _check_arguments(event.arguments)
        wanted = ExchangeDefinition(event.name, event.type, event.arguments, event.durable, event.alternate)
        known = self._exchanges.get(event.name)
        if known is not None:
            fields = ("type",) if _standard(event.name) else ("type", "arguments", "durable", "alternate")
            _check_same("exchange", known.definition, wanted, fields)
            return Outcome()
        _check_name("exchange", event.name)
        if event.name.startswith("amq."):
            raise PeerError(NOT_ALLOWED, f"names that begin with amq. are the standard's own: rename {event.name!r}")
        if event.type not in TYPES:
            raise PeerError(INVALID, f"an exchange's type is one of {', '.join(TYPES)}, not {event.type!r}")
        self._check_alternate(event.alternate)
        self._exchanges[event.name] = _Exchange(wanted)
        return Outcome(changed=True)

    def _delete_exchange(self, event: DeleteExchange) -> Outcome:
        if _standard(event.name):
            raise PeerError(NOT_ALLOWED, f"exchange {event.name!r} is a standard one and stays")
        if event.name not in self._exchanges:
            raise PeerError(NOT_FOUND, f"there is no exchange {event.name!r} to delete")
        users = [q.name for q in self._queues.values() if q.alternate == event.name]
        users += [e.definition.name for e in self._exchanges.values() if e.definition.alternate == event.name]
        if users:
            raise PeerError(IN_USE, f"exchange {event.name!r} is the alternate of {', '.join(sorted(users))}")
        del self._exchanges[event.name]
        return Outcome(changed=True)

    def _bind(self, event: Bind) -> Outcome:
        exchange = self._bindable(event.exchange, event.queue)
        _check_arguments(event.arguments)
        if len(event.key) > DEFAULT.name_chars:
            raise PeerError(INVALID, f"a binding key has at most {DEFAULT.name_chars} characters")
        if exchange.definition.type == "headers" and event.arguments.get("x-match", "all") not in ("all", "any"):
            raise PeerError(INVALID, f"x-match is all or any, not {event.arguments['x-match']!r}")
        binding = Binding(event.exchange, event.queue, event.key, event.arguments)
        place = _place(binding)
        if place in exchange.bindings:
            return Outcome()
        exchange.bindings[place] = binding
        exchange.changed()
        return Outcome(changed=True)

    def _unbind(self, event: Unbind) -> Outcome:
        exchange = self._bindable(event.exchange, event.queue)
        gone = [place for place in exchange.bindings if place[:2] == (event.queue, event.key)]
        if not gone:
            text = f"queue {event.queue!r} is not bound to {event.exchange!r} by key {event.key!r}"
            raise PeerError(NOT_FOUND, text)
        for place in gone:
            del exchange.bindings[place]
        exchange.changed()
        return Outcome(changed=True)

    def _bindable(self, exchange: str, queue: str) -> _Exchange:
        if exchange == "":
            raise PeerError(NOT_ALLOWED, "the default exchange is bound to every queue by its name and not otherwise")
        found = self._exchanges.get(exchange)
        if found is None:
            raise PeerError(NOT_FOUND, f"there is no exchange {exchange!r}: declare it first")
        if queue not in self._queues:
            raise PeerError(NOT_FOUND, f"there is no queue {queue!r}: declare it first")
        return found

    def _check_alternate(self, name: str) -> None:
        if name and name not in self._exchanges:
            raise PeerError(NOT_FOUND, f"there is no exchange {name!r} to be the alternate: declare it first")

    # ---- routing

    def route(self, exchange: str, key: str, headers: dict[str, Any] | None = None) -> tuple[str, ...]:
        """Ids of the queues a message goes to, each once, in the order of their names.

        An exchange that finds no queue passes the message to its alternate exchange, if it has one.
        """
        place = (exchange, key)
        if headers is None:
            found = self._cache.get(place)
            if found is not None:
                return found
        route = self._route(exchange, key, headers or {})
        if headers is None:
            if len(self._cache) >= ROUTES_CACHED:
                self._cache.clear()
            self._cache[place] = route
        return route

    def _route(self, name: str, key: str, headers: dict[str, Any]) -> tuple[str, ...]:
        seen: set[str] = set()
        while name not in seen:
            seen.add(name)
            exchange = self._exchanges.get(name)
            if exchange is None:
                return ()
            names = [key] if name == "" else self._bound(exchange, key, headers)
            ids = tuple(self._queues[queue].id for queue in sorted(set(names)) if queue in self._queues)
            if ids or not exchange.definition.alternate:
                return ids
            name = exchange.definition.alternate
        return ()

    def _bound(self, exchange: _Exchange, key: str, headers: dict[str, Any]) -> list[str]:
        bindings = exchange.bindings.values()
        match exchange.definition.type:
            case "fanout":
                return [binding.queue for binding in bindings]
            case "direct":
                if exchange.direct is None:
                    exchange.direct = {}
                    for binding in bindings:
                        exchange.direct.setdefault(binding.key, []).append(binding.queue)
                return exchange.direct.get(key, [])
            case "topic":
                if exchange.topics is None:
                    exchange.topics = TopicIndex()
                    for binding in bindings:
                        exchange.topics.add(binding.key, binding.queue)
                return exchange.topics.match(key)
            case _:
                return [binding.queue for binding in bindings if _headers_match(binding.arguments, headers)]

    def needs_headers(self, exchange: str) -> bool:
        """Whether routing there, or in its alternates, looks at a message's properties."""
        seen: set[str] = set()
        while exchange not in seen and exchange in self._exchanges:
            seen.add(exchange)
            definition = self._exchanges[exchange].definition
            if definition.type == "headers":
                return True
            if not definition.alternate:
                return False
            exchange = definition.alternate
        return False

    # ---- queries

    def queue(self, name: str) -> QueueDefinition | None:
        return self._queues.get(name)

    def by_id(self, id: str) -> QueueDefinition | None:
        return self._by_id.get(id)

    def queues(self) -> list[QueueDefinition]:
        return [self._queues[name] for name in sorted(self._queues)]

    def exchange(self, name: str) -> ExchangeDefinition | None:
        found = self._exchanges.get(name)
        return found.definition if found is not None else None

    def exchanges(self) -> list[ExchangeDefinition]:
        return [self._exchanges[name].definition for name in sorted(self._exchanges)]

    def bindings(self) -> list[Binding]:
        return [
            self._exchanges[name].bindings[place]
            for name in sorted(self._exchanges)
            for place in sorted(self._exchanges[name].bindings)
        ]

    def snapshot(self) -> list[Any]:
        """Everything, in a canonical form that msgpack can carry: equal snapshots mean equal wiring."""
        parts = (self.queues(), self.exchanges(), self.bindings())
        found = [[list(msgspec.structs.astuple(one)) for one in part] for part in parts]
        return [*found, self.flow.snapshot(), list(self.supervisor), self.uses.snapshot()]

    @classmethod
    def restore(cls, snapshot: list[Any]) -> Wiring:
        """The wiring in a snapshot.

        Raises:
            LocalError: this is no snapshot.
        """
        wiring = cls()
        try:
            queues, exchanges, bindings, *more = snapshot
            for values in queues:
                queue = QueueDefinition(*values)
                wiring._queues[queue.name] = wiring._by_id[queue.id] = queue
            wiring._exchanges = {values[0]: _Exchange(ExchangeDefinition(*values)) for values in exchanges}
            for values in bindings:
                binding = Binding(*values)
                wiring._exchanges[binding.exchange].bindings[_place(binding)] = binding
            if more:  # older programs know of no flow control
                wiring.flow = ClusterFlow.restore(more[0])
            if len(more) > 1:
                wiring.supervisor = Commission(*more[1])
            wiring.uses = Uses.restore(more[2] if len(more) > 2 else [])
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise LocalError(
                f"a wiring snapshot is [queues, exchanges, bindings, flow], as `snapshot` gives it: {error!r}"
            ) from None
        return wiring

    def digest(self) -> int:
        return zlib.crc32(_canonical(self.snapshot()))


_canonical = msgspec.msgpack.Encoder(order="deterministic").encode


def _place(binding: Binding) -> tuple[str, str, bytes]:
    return binding.queue, binding.key, _canonical(binding.arguments)


def _standard(name: str) -> bool:
    return name == "" or name.startswith("amq.")


def _check_arguments(value: Any) -> None:
    """Plain values only: others cannot be compared, ordered and encoded again, and must not enter the wiring."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise PeerError(INVALID, f"the names of arguments are text, not {name!r}")
            _check_arguments(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_arguments(inner)
    elif value is not None and not isinstance(value, str | bytes | int | float):
        text = f"arguments are text, bytes, numbers, booleans, null, lists and maps of them, not {type(value).__name__}"
        raise PeerError(INVALID, text)


def _check_name(what: str, name: str) -> None:
    if not name or len(name) > DEFAULT.name_chars:
        raise PeerError(INVALID, f"a {what}'s name has 1 to {DEFAULT.name_chars} characters, not {len(name)}")
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in name):
        raise PeerError(INVALID, f"a {what}'s name has no control characters: {name!r}")


def _check_same(
    what: str,
    known: QueueDefinition | ExchangeDefinition,
    wanted: QueueDefinition | ExchangeDefinition,
    fields: tuple[str, ...],
) -> None:
    if not wanted.alternate:  # "" is "not named": a client that only makes sure of a queue need not know it
        fields = tuple(name for name in fields if name != "alternate")
    differ = [name for name in fields if _canonical(getattr(known, name)) != _canonical(getattr(wanted, name))]
    if differ:
        had = ", ".join(f"{name}={getattr(known, name)!r}" for name in differ)
        text = f"{what} {known.name!r} exists with {had}: declare it so, or delete it first"
        raise PeerError(EXISTS, text)


def _headers_match(arguments: dict[str, Any], headers: dict[str, Any]) -> bool:
    """x-match all (the default) or any; arguments that begin with x- take no part; a null value asks for presence."""
    wanted = {name: value for name, value in arguments.items() if not name.startswith("x-")}
    hits = (name in headers and (value is None or headers[name] == value) for name, value in wanted.items())
    return any(hits) if arguments.get("x-match") == "any" else all(hits)
