"""Management commands of a broker: declare, bind, purge, list, and so on.

Wiring commands are events of the cluster stream and complete when every connected broker shows them. Questions about
queues are answered by this broker's replicas. A wrong command fails by itself, with the rule it broke; nothing else of
the connection is disturbed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..errors import EXISTS, INVALID, NOT_ALLOWED, NOT_FOUND, UNAVAILABLE, PeerError
from ..wire.client_frames import Command, Reply
from ..wire.events import AnyEvent, Bind, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, Unbind
from ..wire.queue_frames import QueueCommand, QueueReply
from ..wiring.arguments import check_names
from ..wiring.wiring import Outcome, QueueDefinition
from .deletion import Deletions
from .session import Session

if TYPE_CHECKING:
    from .machine import BrokerMachine

Answer = Callable[..., None]
Asked = Callable[[dict[str, Any]], None]

WAITED_MS = 2000
"""Whoever asks about a queue waits so long, where it is known that the queue has no majority."""
LISTED_MS = 5000
"""A list waits so long for one of its queues, and a deletion on a condition for its queue, whatever the reason."""
STAT = "stat"


class Question(NamedTuple):
    """To a queue's replica.

    Attributes:
        replica, queue: who is asked about which queue's id.
        what: `STAT`, which changes nothing, or "purge".
        since_ms: when it was asked. limit_ms: how long it may take; 0 for any time.
        then: told the answer, or an "error" with its "code".
    """

    replica: str
    queue: str
    what: str
    since_ms: int
    limit_ms: int
    then: Asked


class DeclareQueueArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    durable: bool = False
    alternate: str = ""
    arguments: dict[str, Any] = {}
    passive: bool = False


class DeleteQueueArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    if_unused: bool = False
    if_empty: bool = False


class DeclareExchangeArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    type: str = "direct"
    durable: bool = False
    alternate: str = ""
    arguments: dict[str, Any] = {}
    passive: bool = False


class NameArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class BindArguments(msgspec.Struct, forbid_unknown_fields=True):
    exchange: str
    queue: str
    key: str = ""
    arguments: dict[str, Any] = {}


class UnbindArguments(msgspec.Struct, forbid_unknown_fields=True):
    exchange: str
    queue: str
    key: str = ""


class PurgeArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    count: int = 0


class NoArguments(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Management:
    """Runs the commands of one broker's clients."""

    def __init__(self, broker: BrokerMachine) -> None:
        self._broker = broker
        self.deleting = Deletions(broker, lambda queue, asked: self._ask(queue, STAT, 0, asked, LISTED_MS))
        self._numbers = count(1)
        self._asked: dict[int, Question] = {}

    def run(self, session: Session, frame: Command) -> None:
        """Start a command; its `Reply` comes now or when it is complete."""

        def answer(value: Any = None, code: str = "", text: str = "") -> None:
            self._broker.send(session.peer, Reply(frame.number, value, code, text))

        try:
            rule, shape = _COMMANDS[frame.name]
        except KeyError:
            answer(
                code=INVALID, text=f"there is no command {frame.name!r}; commands are {', '.join(sorted(_COMMANDS))}"
            )
            return
        if session.rescue:
            if frame.name not in _LOOKS:
                answer(code=NOT_ALLOWED, text=f"{frame.name} changes something: connect without rescue")
                return
            rule = _RESCUED.get(frame.name, rule)
        try:
            arguments = msgspec.convert(frame.arguments, shape)
            rule(self, answer, arguments)
        except msgspec.ValidationError as error:
            answer(code=INVALID, text=f"command {frame.name}: {error}")
        except PeerError as error:
            answer(code=error.code, text=error.text)

    def replied(self, frame: QueueReply) -> None:
        """A queue replica has answered."""
        question = self._asked.pop(frame.number, None)
        if question is not None:
            question.then(frame.value)

    def undeclared(self, queue: str, code: str, text: str) -> None:
        """A queue is gone: what was asked of it is not answered any more."""
        for number in [n for n, question in self._asked.items() if question.queue == queue]:
            self._asked.pop(number).then({"error": text, "code": code})

    def lost(self, replica: str) -> None:
        """A replica has died: what it was asked is not answered any more."""
        numbers = [n for n, question in self._asked.items() if question.replica == replica]
        self._fail(numbers, "the replica of queue {!r} has stopped: ask again")

    def overdue(self, now_ms: int) -> None:
        """A queue answers in order, so without a majority it does not: who only asks about it is not kept waiting."""
        waits, slow = [], []
        for number, question in self._asked.items():
            for_ms = now_ms - question.since_ms
            if question.what != STAT or for_ms < WAITED_MS:
                continue
            if self._broker.waits_heard.waits(question.queue, now_ms):
                waits.append(number)
            elif 0 < question.limit_ms <= for_ms:
                slow.append(number)
        self._fail(waits, "queue {!r} has no majority of its replicas and answers nothing: see `mantamq status`")
        self._fail(slow, f"queue {{!r}} has not answered for {LISTED_MS // 1000} s: ask again, or see `mantamq status`")

    def _fail(self, numbers: list[int], text: str) -> None:
        """`text`: with the queue's name to be put in."""
        for number in numbers:
            question = self._asked.pop(number)
            definition = self._broker.wiring.by_id(question.queue)
            name = definition.name if definition is not None else question.queue
            question.then({"error": text.format(name), "code": UNAVAILABLE})

    # ---- wiring

    def _order(self, answer: Answer, event: AnyEvent) -> None:
        def done(outcome: Outcome) -> None:
            answer({"changed": outcome.changed}, outcome.code, outcome.text)

        self._broker.wiring_request(event, done)

    def _declare_queue(self, answer: Answer, a: DeclareQueueArguments) -> None:
        if a.passive:
            self._queue_named(a.name)
            answer({"changed": False})
            return
        check_names("queue", a.arguments)
        self._order(answer, DeclareQueue(a.name, a.arguments, a.durable, a.alternate))

    def _delete_queue(self, answer: Answer, a: DeleteQueueArguments) -> None:
        if a.if_unused or a.if_empty:
            self.deleting.ask(self._queue_named(a.name), a.if_unused, a.if_empty, answer)
        else:
            self._order(answer, DeleteQueue(a.name))

    def _declare_exchange(self, answer: Answer, a: DeclareExchangeArguments) -> None:
        if a.passive:
            found = self._broker.wiring.exchange(a.name)
            if found is None:
                raise PeerError(NOT_FOUND, f"there is no exchange {a.name!r}: declare it without passive")
            if found.type != a.type:
                raise PeerError(EXISTS, f"exchange {a.name!r} is of type {found.type}, not {a.type}")
            answer({"changed": False})
            return
        check_names("exchange", a.arguments)
        self._order(answer, DeclareExchange(a.name, a.type, a.arguments, a.durable, a.alternate))

    def _delete_exchange(self, answer: Answer, a: NameArguments) -> None:
        self._order(answer, DeleteExchange(a.name))

    def _bind(self, answer: Answer, a: BindArguments) -> None:
        check_names("binding", a.arguments)
        self._order(answer, Bind(a.exchange, a.queue, a.key, a.arguments))

    def _unbind(self, answer: Answer, a: UnbindArguments) -> None:
        self._order(answer, Unbind(a.exchange, a.queue, a.key))

    # ---- queues

    def _queue_named(self, name: str) -> QueueDefinition:
        found = self._broker.wiring.queue(name)
        if found is None:
            raise PeerError(NOT_FOUND, f"there is no queue {name!r}: declare it first")
        return found

    def _ask(self, queue: QueueDefinition, name: str, argument: int, asked: Asked, limit_ms: int = 0) -> None:
        host = self._broker.placement.of.get(queue.id)
        if host is None:
            raise PeerError(UNAVAILABLE, f"queue {queue.name!r} has no replica at this broker now: ask another broker")
        number = next(self._numbers)
        self._asked[number] = Question(host, queue.id, name, self._broker.now_ms, limit_ms, asked)
        self._broker.send(host, QueueCommand(queue.id, number, name, argument))

    def _purge(self, answer: Answer, a: PurgeArguments) -> None:
        if a.count < 0:
            raise PeerError(INVALID, "purge takes a count of messages, or 0 for all")
        self._ask(self._queue_named(a.name), "purge", a.count, lambda report: _tell(answer, report, report))

    def _reset_queue(self, answer: Answer, a: NameArguments) -> None:
        self._broker.resets.ask(self._queue_named(a.name), answer)

    def _queue(self, answer: Answer, a: NameArguments) -> None:
        queue = self._queue_named(a.name)
        self._ask(queue, STAT, 0, lambda report: _tell(answer, report, _described(queue, report)))

    def _queues(self, answer: Answer, a: NoArguments) -> None:
        """Each as `_queue` describes it; one that does not answer has an "error" in place of its numbers."""
        queues = [q for q in self._broker.wiring.queues() if q.id in self._broker.placement.of]
        reports: dict[str, dict[str, Any]] = {}
        if not queues:
            answer([])

        def asked(queue: QueueDefinition, report: dict[str, Any]) -> None:
            reports[queue.name] = _described(queue, report)
            if len(reports) == len(queues):
                answer([reports[name] for name in sorted(reports)])

        for queue in queues:
            self._ask(queue, STAT, 0, lambda report, queue=queue: asked(queue, report), LISTED_MS)

    def _defined(self, answer: Answer, a: NameArguments) -> None:
        """A queue as it is declared: how much is in it takes a majority to say."""
        answer(_described(self._queue_named(a.name), {}))

    def _all_defined(self, answer: Answer, a: NoArguments) -> None:
        answer([_described(queue, {}) for queue in self._broker.wiring.queues()])

    # ---- questions about the wiring

    def _exchanges(self, answer: Answer, a: NoArguments) -> None:
        answer([msgspec.structs.asdict(e) if isinstance(e, msgspec.Struct) else vars_of(e)
                for e in self._broker.wiring.exchanges()])  # fmt: skip

    def _bindings(self, answer: Answer, a: NoArguments) -> None:
        answer([vars_of(binding) for binding in self._broker.wiring.bindings()])

    def _resolve(self, answer: Answer, a: NameArguments) -> None:
        if self._broker.wiring.queue(a.name) is not None:
            answer({"kind": "queue"})
        elif self._broker.wiring.exchange(a.name) is not None:
            answer({"kind": "exchange"})
        else:
            raise PeerError(NOT_FOUND, f"there is no queue and no exchange {a.name!r}: declare it first")

    def _status(self, answer: Answer, a: NoArguments) -> None:
        answer(self._broker.report())


def vars_of(value: Any) -> dict[str, Any]:
    """A small record as a plain dictionary for the wire."""
    return msgspec.to_builtins(value)


def _tell(answer: Answer, report: dict[str, Any], value: Any) -> None:
    """What a replica has answered, or that it could not."""
    if "error" in report:
        answer(code=report.get("code", UNAVAILABLE), text=report["error"])
    else:
        answer(value)


def _described(queue: QueueDefinition, report: dict[str, Any]) -> dict[str, Any]:
    definition = {
        "name": queue.name,
        "id": queue.id,
        "durable": queue.durable,
        "alternate": queue.alternate,
        "arguments": queue.arguments,
    }
    return definition | report


_COMMANDS: dict[str, tuple[Callable[[Management, Answer, Any], None], type[msgspec.Struct]]] = {
    "declare_queue": (Management._declare_queue, DeclareQueueArguments),
    "delete_queue": (Management._delete_queue, DeleteQueueArguments),
    "declare_exchange": (Management._declare_exchange, DeclareExchangeArguments),
    "delete_exchange": (Management._delete_exchange, NameArguments),
    "bind": (Management._bind, BindArguments),
    "unbind": (Management._unbind, UnbindArguments),
    "purge": (Management._purge, PurgeArguments),
    "reset_queue": (Management._reset_queue, NameArguments),
    "queue": (Management._queue, NameArguments),
    "queues": (Management._queues, NoArguments),
    "exchanges": (Management._exchanges, NoArguments),
    "bindings": (Management._bindings, NoArguments),
    "resolve": (Management._resolve, NameArguments),
    "status": (Management._status, NoArguments),
}

_LOOKS = frozenset({"queue", "queues", "exchanges", "bindings", "resolve", "status"})
"""Commands that only look."""
_RESCUED: dict[str, Callable[[Management, Answer, Any], None]] = {
    "queue": Management._defined,
    "queues": Management._all_defined,
}
"""What they do without a majority."""
