"""Management commands of a broker: declare, bind, purge, list, and so on.

Wiring commands are events of the cluster stream and complete when every connected broker shows them. Questions about
queues are answered by this broker's replicas. A wrong command fails by itself, with the rule it broke; nothing else of
the connection is disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from ..errors import EXISTS, INVALID, NOT_ALLOWED, NOT_FOUND, UNAVAILABLE, PeerError
from ..log.outbox import FollowerOutbox
from ..status.machines import BrokerStatus
from ..wire.client_frames import Command, Reply
from ..wire.events import (
    AnyEvent,
    Bind,
    DeclareExchange,
    DeleteExchange,
    DeleteQueue,
    Unbind,
)
from ..wire.pattern_events import DropPattern
from ..wire.policy_events import DropPolicy
from ..wire.redirect_events import Redirect
from ..wire.settings import names_of
from ..wire.version import (
    KNOWS_EXCHANGES,
    KNOWS_LINKS,
    KNOWS_PATTERNS,
    KNOWS_POLICIES,
    KNOWS_REDIRECTS,
    KNOWS_RELAYS,
    KNOWS_WHO_ASKS,
)
from ..wiring.arguments import binding_known_from, check
from ..wiring.definitions import QueueDefinition
from ..wiring.relays import relay_name, relay_of, relayed
from ..wiring.settings import ExchangeSettings
from ..wiring.wiring import Outcome, Wiring
from .cluster_state import ClusterState
from .command_arguments import (
    LOOKS,
    AddPatternArguments,
    AddPolicyArguments,
    BindArguments,
    CloseConnectionArguments,
    DeclareExchangeArguments,
    DeclareQueueArguments,
    DeletePolicyArguments,
    DeleteQueueArguments,
    MoveArguments,
    NameArguments,
    NoArguments,
    PurgeArguments,
    RedirectQueueArguments,
    ResetQueueArguments,
    StatisticsArguments,
    UnbindArguments,
)
from .deletion import Condition, Deletions
from .exclusive_queues import ExclusiveQueues
from .made_names import named
from .moves import move
from .older_members import OLDER_BINDING, OLDER_EXCHANGE, OLDER_REDIRECT
from .pattern_commands import OLDER_PATTERN, pattern_of
from .policy_commands import OLDER_POLICY, policy_of
from .questions import PURGE, STAT, Questions
from .queue_declaration import OLDER_TEXT, Owner, declaration, with_dead_letters
from .queue_description import queue_described
from .rebinding import bound, bound_unseen
from .requests import UNSEEN, Requests
from .resets import Resets
from .session import Session
from .statistics import gather, parts_of
from .wiring_questions import QUESTIONS

Answer = Callable[..., None]
LEAVE = "leave"
"""A command without an answer: the client closes its connection, and does not come back."""


class Management:
    """Runs the commands of one broker's clients.

    Args:
        report: this broker's status.
        stored: the cluster has a store, so a queue may be durable.
        queue_bytes: as in `Limits`.
        sessions: peer -> its session, of all connections.
        exclusives: queues that one client has for itself.
        dismiss: ends the connection of a client here, and says whether there was one.
    """

    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster: ClusterState,
        requests: Requests,
        questions: Questions,
        deletions: Deletions,
        resets: Resets,
        replica_of: Mapping[str, str],
        report: Callable[[], BrokerStatus],
        stored: bool,
        queue_bytes: int,
        sessions: Mapping[str, Session],
        exclusives: ExclusiveQueues,
        dismiss: Callable[[str, str], bool],
    ) -> None:
        self._dismiss = dismiss
        self._outbox = outbox
        self._cluster = cluster
        self._requests = requests
        self._questions = questions
        self._deletions = deletions
        self._resets = resets
        self._replica_of = replica_of
        self._report = report
        self._stored = stored
        self._queue_bytes = queue_bytes
        self._sessions = sessions
        self._exclusives = exclusives

    def run(self, session: Session, frame: Command) -> None:
        """Start a command; its `Reply` comes now or when it is complete, if the connection is still there then."""

        def answer(value: Any = None, code: str = "", text: str = "") -> None:
            if self._sessions.get(session.peer) is session:
                self._outbox.send(session.peer, Reply(frame.number, value, code, text, self._cluster.wired))

        if frame.name == LEAVE:
            session.leaving = True
            return
        try:
            rule, shape = _COMMANDS[frame.name]
        except KeyError:
            answer(
                code=INVALID, text=f"there is no command {frame.name!r}; commands are {', '.join(sorted(_COMMANDS))}"
            )
            return
        if session.rescue:
            if frame.name not in LOOKS:
                answer(code=NOT_ALLOWED, text=f"{frame.name} changes something: connect without rescue")
                return
            rule = _RESCUED.get(frame.name, rule)
        self._perform(session, frame.name, rule, shape, frame.arguments, answer)

    def declare(self, session: Session, what: str, arguments: dict[str, Any], answer: Answer) -> None:
        """Have a `what`, "queue" or "exchange", declared for a client that has not asked for that by a command.
        `answer`, as that of a command, is called with a value, a code and a text."""
        name = f"declare_{what}"
        self._perform(session, name, *_COMMANDS[name], arguments, answer)

    def _perform(
        self, session: Session, name: str, rule: Callable[..., None], shape: type[msgspec.Struct],
        given: dict[str, Any], answer: Answer,
    ) -> None:  # fmt: skip
        try:
            arguments = msgspec.convert(given, shape)
            self._exclusives.check(session, name, arguments)
            rule(self, answer, arguments, *([session] if name in _WHO_ASKS else []))
        except msgspec.ValidationError as error:
            answer(code=INVALID, text=f"command {name}: {error}")
        except PeerError as error:
            answer(code=error.code, text=error.text)

    # ---- wiring

    def _order(self, answer: Answer, event: AnyEvent, known_from: int = 0, older: str = "", client: str = "") -> None:
        """Order an event that members keep to from this minor version on; `older` says why not while one is older.
        Until that is known all wait, each in its place: who declares a queue may bind it before that is answered.
        `client` is who asks, where that is looked at when the event applies."""
        versions = self._cluster.versions

        def done(outcome: Outcome) -> None:
            answer({"changed": outcome.changed}, outcome.code, outcome.text)

        def known() -> None:
            if versions.least < known_from:
                answer(code=UNAVAILABLE, text=older)
            else:
                named = client and versions.least >= KNOWS_WHO_ASKS
                self._requests.order(replace(event, client=client) if named else event, done)

        versions.once_known(known)

    def _declare_queue(self, answer: Answer, a: DeclareQueueArguments, session: Session) -> None:
        if a.passive:
            self._queue_named(a.name)
            answer({"changed": False})
            return
        versions, name = self._cluster.versions, named(a.name, a.fresh, self._cluster.wiring.queue(a.name) is not None)
        owner = Owner(session.client, self._cluster.broker, self._cluster.inc, session.life)
        event, known_from = declaration(a, name, owner, self._stored, self._queue_bytes)

        def declared(value: Any = None, code: str = "", text: str = "") -> None:
            answer(value if code or a.name else value | {"name": name}, code, text)

        older = OLDER_TEXT.format(name)
        versions.once_known(lambda: self._order(declared, with_dead_letters(event, versions.least), known_from, older))

    def _delete_queue(self, answer: Answer, a: DeleteQueueArguments, session: Session) -> None:
        if a.if_unused or a.if_empty:
            queue = self._queue_named(a.name)
            if of := relayed(queue):
                raise PeerError(NOT_ALLOWED, f"queue {a.name!r} belongs to exchange {of!r}, and goes with it")
            self._deletions.ask(queue, Condition(a.if_unused, a.if_empty), answer)
        else:
            versions, deleted = self._cluster.versions, partial(self._deletions.deleted, answer=answer)

            def known() -> None:
                client = session.client if versions.least >= KNOWS_WHO_ASKS else ""
                self._requests.order(DeleteQueue(a.name, client=client, aside=versions.sets_aside), deleted)

            versions.once_known(known)

    def _declare_exchange(self, answer: Answer, a: DeclareExchangeArguments) -> None:
        if a.passive:
            found = self._cluster.wiring.exchange(a.name)
            if found is None:
                raise PeerError(NOT_FOUND, f"there is no exchange {a.name!r}: declare it without passive")
            if found.type != a.type:
                raise PeerError(EXISTS, f"exchange {a.name!r} is of type {found.type}, not {a.type}")
            answer({"changed": False})
            return
        arguments = check("exchange", a.arguments)
        known_from = KNOWS_EXCHANGES if arguments.keys() & names_of(ExchangeSettings) else 0
        event = DeclareExchange(a.name, a.type, arguments, a.durable, a.alternate)
        older = OLDER_EXCHANGE.format(a.name)
        if (relay := relay_of(event, a.durable and self._stored)) is None:
            self._order(answer, event, known_from, older)
            return

        def declared(value: Any = None, code: str = "", text: str = "") -> None:
            if code:  # without an exchange it is nobody's; of one that is there, it stays
                self._order(_nobody, DeleteQueue(relay.name))
            answer(value, code, text)

        self._order(_nobody, relay, KNOWS_RELAYS, older)
        self._order(declared, event, KNOWS_RELAYS, older)

    def _delete_exchange(self, answer: Answer, a: NameArguments) -> None:
        self._order(answer, DeleteExchange(a.name))
        if relay := relay_name(self._cluster.wiring.exchange(a.name)):  # behind it: of an exchange that stays, it stays
            self._order(_nobody, DeleteQueue(relay))

    def _bind(self, answer: Answer, a: BindArguments, session: Session) -> None:
        arguments = check("binding", a.arguments)
        known_from = max(binding_known_from(arguments), KNOWS_LINKS if a.to_exchange else 0)
        event = Bind(a.exchange, a.queue, a.key, arguments, a.to_exchange)
        made = partial(self._bound, answer, a.exchange)
        self._order(made, event, known_from, OLDER_BINDING, session.client)

    def _bound(self, answer: Answer, exchange: str, value: Any = None, code: str = "", text: str = "") -> None:
        if code:
            answer(value, code, text)
            if text == UNSEEN.text:
                bound_unseen(self._cluster, self._requests, exchange)
        else:
            bound(self._cluster, self._requests, exchange, lambda: answer(value))

    def _unbind(self, answer: Answer, a: UnbindArguments, session: Session) -> None:
        self._order(answer, Unbind(a.exchange, a.queue, a.key, a.to_exchange), client=session.client)

    def _redirect_queue(self, answer: Answer, a: RedirectQueueArguments, session: Session) -> None:
        self._order(answer, Redirect(a.name, a.target), KNOWS_REDIRECTS, OLDER_REDIRECT, session.client)

    def _add_policy(self, answer: Answer, a: AddPolicyArguments) -> None:
        self._order(answer, policy_of(a), KNOWS_POLICIES, OLDER_POLICY)

    def _delete_policy(self, answer: Answer, a: DeletePolicyArguments) -> None:
        self._order(answer, DropPolicy(a.name, a.operator), KNOWS_POLICIES, OLDER_POLICY)

    def _add_pattern(self, answer: Answer, a: AddPatternArguments) -> None:
        self._order(answer, pattern_of(a, self._stored, self._queue_bytes), KNOWS_PATTERNS, OLDER_PATTERN)

    def _delete_pattern(self, answer: Answer, a: NameArguments) -> None:
        self._order(answer, DropPattern(a.name), KNOWS_PATTERNS, OLDER_PATTERN)

    # ---- queues

    def _queue_named(self, name: str) -> QueueDefinition:
        found = self._cluster.wiring.queue(name)
        if found is None:
            raise PeerError(NOT_FOUND, f"there is no queue {name!r}: declare it first")
        return found

    def _purge(self, answer: Answer, a: PurgeArguments) -> None:
        if a.count < 0:
            raise PeerError(INVALID, "purge takes a count of messages, or 0 for all")
        self._questions.ask(self._queue_named(a.name), PURGE, a.count, lambda report: _tell(answer, report, report))

    def _move(self, answer: Answer, a: MoveArguments) -> None:
        move(self._cluster, self._questions, self._queue_named(a.name), answer, a)

    def _reset_queue(self, answer: Answer, a: ResetQueueArguments) -> None:
        self._resets.ask(self._queue_named(a.name), answer, a.even_durable)

    def _queue(self, answer: Answer, a: NameArguments) -> None:
        queue = self._queue_named(a.name)
        where, redirects = {"kept_by": list(self._cluster.voters)}, self._cluster.wiring.redirects
        self._questions.ask(
            queue, STAT, 0, lambda report: _tell(answer, report, queue_described(queue, where | report, redirects))
        )

    def _queues(self, answer: Answer, a: NoArguments) -> None:
        """Each as `_queue` describes it; one that does not answer has an "error" in place of its numbers, and one that
        is deleted meanwhile is left out."""
        queues = [q for q in self._cluster.wiring.queues() if q.id in self._replica_of]
        reports: dict[str, dict[str, Any]] = {}
        if not queues:
            answer([])

        def asked(queue: QueueDefinition, report: dict[str, Any]) -> None:
            reports[queue.name] = queue_described(queue, report, self._cluster.wiring.redirects)
            if len(reports) == len(queues):
                left = sorted(q.name for q in queues if self._cluster.wiring.by_id(q.id) is not None)
                answer([reports[name] for name in left])

        for queue in queues:
            self._questions.look(queue, lambda report, queue=queue: asked(queue, report))

    def _defined(self, answer: Answer, a: NameArguments) -> None:
        """A queue as it is declared: how much is in it takes a majority to say."""
        answer(queue_described(self._queue_named(a.name), {}, self._cluster.wiring.redirects))

    def _all_defined(self, answer: Answer, a: NoArguments) -> None:
        wiring = self._cluster.wiring
        answer([queue_described(queue, {}, wiring.redirects) for queue in wiring.queues()])

    # ---- the cluster as a whole

    def _statistics(self, answer: Answer, a: StatisticsArguments) -> None:
        gather(parts_of(a.what), self._cluster, self._questions.fellows, self._queues, answer)

    def _status(self, answer: Answer, a: NoArguments) -> None:
        answer(self._report().plain())

    def _close_connection(self, answer: Answer, a: CloseConnectionArguments) -> None:
        if not self._dismiss(a.client, a.reason):
            broker = self._cluster.broker
            raise PeerError(NOT_FOUND, f"no client {a.client!r} is connected to {broker}: ask the broker that has it")
        answer()


def _nobody(value: Any = None, code: str = "", text: str = "") -> None:
    """Nobody waits for the answer: the command that goes with this one has one."""


def _tell(answer: Answer, report: dict[str, Any], value: Any) -> None:
    """Answer with `value`, or with the error that the replica's report carries."""
    if "error" in report:
        answer(code=report.get("code", UNAVAILABLE), text=report["error"])
    else:
        answer(value)


def _of_the_wiring(question: Callable[[Wiring, Any], Any]) -> Callable[..., None]:
    return lambda self, answer, a: answer(question(self._cluster.wiring, a))


_COMMANDS: dict[str, tuple[Callable[..., None], type[msgspec.Struct]]] = {
    "declare_queue": (Management._declare_queue, DeclareQueueArguments),
    "delete_queue": (Management._delete_queue, DeleteQueueArguments),
    "declare_exchange": (Management._declare_exchange, DeclareExchangeArguments),
    "delete_exchange": (Management._delete_exchange, NameArguments),
    "bind": (Management._bind, BindArguments),
    "unbind": (Management._unbind, UnbindArguments),
    "redirect_queue": (Management._redirect_queue, RedirectQueueArguments),
    "purge": (Management._purge, PurgeArguments),
    "move": (Management._move, MoveArguments),
    "reset_queue": (Management._reset_queue, ResetQueueArguments),
    "queue": (Management._queue, NameArguments),
    "queues": (Management._queues, NoArguments),
    "add_policy": (Management._add_policy, AddPolicyArguments),
    "delete_policy": (Management._delete_policy, DeletePolicyArguments),
    "add_pattern": (Management._add_pattern, AddPatternArguments),
    "delete_pattern": (Management._delete_pattern, NameArguments),
    "status": (Management._status, NoArguments),
    "statistics": (Management._statistics, StatisticsArguments),
    "close_connection": (Management._close_connection, CloseConnectionArguments),
    **{name: (_of_the_wiring(question), shape) for name, (question, shape) in QUESTIONS.items()},
}

_WHO_ASKS = frozenset(("declare_queue", "delete_queue", "bind", "unbind", "redirect_queue"))
"""Commands to which it matters whose they are."""
_RESCUED: dict[str, Callable[[Management, Answer, Any], None]] = {
    "queue": Management._defined,
    "queues": Management._all_defined,
}
"""How a connection for rescue is answered: without a majority."""
