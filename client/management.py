"""Management commands of both twins, described once (`_Ask`): `Management` answers, `AsyncManagement` is awaited."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack, overload

from .books.abilities import MADE_NAMES, POLICIES, REDIRECTS, Ability
from .definitions.document import document_of
from .durations import IN_MS, in_ms, listed
from .errors import Invalid, NotFound

T = TypeVar("T")
Description = dict[str, Any]
"""A broker's description of a queue, an exchange, a binding, or itself: names and plain values."""


def parse_address(address: str) -> tuple[str, str]:
    """ "exchange/key" as (exchange, key); "name" as ("", name)."""
    exchange, slash, key = address.partition("/")
    return (exchange, key) if slash else ("", address)


@dataclass(frozen=True, slots=True)
class _Ask(Generic[T]):
    """A command. Attributes: name; arguments; pick: what its answer comes to; needs: what its broker must know."""

    name: str
    arguments: dict[str, Any]
    pick: Callable[[Any], T]
    needs: Ability | None = None


def _declare_queue(
    name: str, durable: bool, alternate: str, arguments: dict[str, Any] | None, passive: bool, fresh: str = "",
    **typed: Any,
) -> _Ask[Any]:  # fmt: skip
    """A queue without a name gets one that is made of `fresh`, "" for something drawn now.

    Args:
        typed: keywords that are arguments of brokers (`TYPED`), those that are not None.
    """
    given = _with_typed(arguments, {keyword: value for keyword, value in typed.items() if value is not None})
    what: dict[str, Any] = {"name": name, "durable": durable, "alternate": alternate}
    what |= {"arguments": given, "passive": passive}
    if name:
        return _Ask("declare_queue", what, _changed)
    if passive:
        raise Invalid("without a name there is no queue to look for: give one, or leave out passive")
    return _Ask("declare_queue", what | {"fresh": fresh or uuid.uuid4().hex}, _name, MADE_NAMES)


class QueueKeywords(TypedDict, total=False):
    """The keywords of `declare_queue` that are arguments of brokers."""

    max_count: int | None
    max_size: int | None
    overflow: str | None
    priorities: int | None
    last_value_key: str | None
    group_key: str | None
    fair_key: str | None
    flow_stop_count: int | None
    flow_resume_count: int | None
    flow_stop_size: int | None
    flow_resume_size: int | None
    fairshare: int | None
    sequence_key: str | None
    single_active: bool | None
    auto_delete: bool | None
    auto_delete_timeout_s: int | None
    exclusive: bool | None
    lifetime: str | None
    message_ttl_s: float | None
    expires_s: float | None
    consumer_timeout_s: float | None
    dead_letters: str | None
    delivery_limit: int | None
    retry_delay_s: Sequence[float] | None
    retry_delay_min_s: float | None
    retry_delay_max_s: float | None
    dead_letter_key: str | None
    dedupe_window_s: int | None
    dedupe_window_count: int | None


class PolicyKeywords(TypedDict, total=False):
    """The settings of `add_policy`, by keyword; None: not given."""

    max_count: int | None
    max_size: int | None
    overflow: str | None
    flow_stop_count: int | None
    flow_resume_count: int | None
    flow_stop_size: int | None
    flow_resume_size: int | None
    message_ttl_s: float | None
    expires_s: float | None
    delivery_limit: int | None
    retry_delay_s: Sequence[float] | None
    retry_delay_min_s: float | None
    retry_delay_max_s: float | None
    dead_letters: str | None
    dead_letter_key: str | None


TYPED = {"max_count": "qpid.max_count", "max_size": "qpid.max_size", "overflow": "qpid.policy_type",
         "priorities": "qpid.priorities", "last_value_key": "qpid.last_value_queue_key",
         "group_key": "qpid.group_header_key", "fair_key": "manta.fair_key",
         "flow_stop_count": "qpid.flow_stop_count", "flow_resume_count": "qpid.flow_resume_count",
         "flow_stop_size": "qpid.flow_stop_size", "flow_resume_size": "qpid.flow_resume_size",
         "fairshare": "qpid.fairshare", "sequence_key": "qpid.queue_msg_sequence",
         "single_active": "x-single-active-consumer",
         "dead_letters": "manta.dead_letters", "delivery_limit": "manta.delivery_limit",
         "dead_letter_key": "manta.dead_letter_key", "retry_delay_s": "manta.retry_delay_s",
         "retry_delay_min_s": "x-delayed-retry-min", "retry_delay_max_s": "x-delayed-retry-max",
         "dedupe_window_s": "manta.dedupe_window_s", "dedupe_window_count": "manta.dedupe_window_count",
         "message_ttl_s": "x-message-ttl", "expires_s": "x-expires",
         "consumer_timeout_s": "x-consumer-timeout", "internal": "manta.internal", "auto_delete": "manta.auto_delete",
         "auto_delete_timeout_s": "qpid.auto_delete_timeout", "exclusive": "manta.exclusive",
         "lifetime": "qpid.lifetime-policy",
         "sequence": "qpid.msg_sequence", "initial": "qpid.ive"}  # fmt: skip
"""Keyword of `declare_queue` or `declare_exchange` -> the argument that it is."""


def _with_typed(arguments: dict[str, Any] | None, typed: dict[str, Any]) -> dict[str, Any]:
    given = arguments or {}
    for keyword, value in typed.items():
        argument, given = TYPED[keyword], dict(given)
        sent = in_ms(keyword, value) if keyword in IN_MS else value
        if given.setdefault(argument, sent) != sent:
            raise Invalid(f"{keyword}={value!r} and {argument}={given[argument]!r} are the same: give one")
    return given


def _by_keyword(refused: Invalid, typed: dict[str, Any]) -> Invalid:
    """A refused declaration, in whose text each argument that was given by a keyword has that beside its own name."""
    text = refused.text
    for keyword in [keyword for keyword, value in typed.items() if value is not None]:
        text = text.replace(f"argument {TYPED[keyword]!r}", f"argument {TYPED[keyword]!r} ({keyword})")
    return Invalid(text)


def _passive(name: str) -> _Ask[bool]:
    return _declare_queue(name, False, "", None, True)


def _delete_queue(name: str, if_unused: bool, if_empty: bool) -> _Ask[int]:
    return _Ask("delete_queue", {"name": name, "if_unused": if_unused, "if_empty": if_empty}, _letters)


def _reset_queue(name: str, even_durable: bool) -> _Ask[None]:
    more = {"even_durable": True} if even_durable else {}  # an older broker knows nothing durable
    return _Ask("reset_queue", {"name": name} | more, _nothing)


def _declare_exchange(
    name: str, type: str, durable: bool, alternate: str, arguments: dict[str, Any] | None, passive: bool, **typed: Any
) -> _Ask[bool]:
    """`typed`: as of queues; those that are not false."""
    given = _with_typed(arguments, {keyword: value for keyword, value in typed.items() if value})
    what = {"name": name, "type": type, "durable": durable, "alternate": alternate}
    return _Ask("declare_exchange", what | {"arguments": given, "passive": passive}, _changed)


def _delete_exchange(name: str) -> _Ask[None]:
    return _Ask("delete_exchange", {"name": name}, _nothing)


def _bind(exchange: str, queue: str, key: str, arguments: dict[str, Any] | None) -> _Ask[bool]:
    what = {"exchange": exchange, "queue": queue, "key": key, "arguments": arguments or {}}
    return _Ask("bind", what, _changed)


def _unbind(exchange: str, queue: str, key: str) -> _Ask[None]:
    return _Ask("unbind", {"exchange": exchange, "queue": queue, "key": key}, _nothing)


def _bind_exchange(exchange: str, to_exchange: str, key: str, arguments: dict[str, Any] | None) -> _Ask[bool]:
    what = {"exchange": exchange, "to_exchange": to_exchange, "key": key, "arguments": arguments or {}}
    return _Ask("bind", what, _changed)


def _unbind_exchange(exchange: str, to_exchange: str, key: str) -> _Ask[None]:
    return _Ask("unbind", {"exchange": exchange, "to_exchange": to_exchange, "key": key}, _nothing)


def _redirect_queue(source: str, target: str) -> _Ask[bool]:
    if not target:
        raise Invalid(f"name the queue that gets what is sent to {source!r}, or end its redirection by end_redirect")
    return _Ask("redirect_queue", {"name": source, "target": target}, _changed, REDIRECTS)


def _close_connection(client: str, reason: str) -> _Ask[None]:
    return _Ask("close_connection", {"client": client, "reason": reason}, lambda value: None)


def _end_redirect(source: str) -> _Ask[None]:
    return _Ask("redirect_queue", {"name": source}, _nothing, REDIRECTS)


def _add_policy(
    name: str, pattern: str, priority: int, operator: bool, alternate: str, arguments: dict[str, Any] | None,
    **typed: Any,
) -> _Ask[bool]:  # fmt: skip
    said = {keyword: value for keyword, value in typed.items() if value is not None}
    if "retry_delay_s" in said:
        said["retry_delay_s"] = list(said["retry_delay_s"])
    given = _with_typed(arguments, said)
    what = {"name": name, "pattern": pattern, "arguments": given, "priority": priority, "operator": operator}
    return _Ask("add_policy", what | {"alternate": alternate}, _changed, POLICIES)


def _delete_policy(name: str, operator: bool) -> _Ask[None]:
    return _Ask("delete_policy", {"name": name, "operator": operator}, _nothing, POLICIES)


def _queue(name: str) -> _Ask[Description]:
    return _Ask("queue", {"name": name}, _same)


def _resolve(name: str) -> _Ask[str]:
    """ "queue" or "exchange"."""
    return _Ask("resolve", {"name": name}, lambda value: str(value["kind"]))


_QUEUES: _Ask[list[Description]] = _Ask("queues", {}, lambda value: value)
_EXCHANGES: _Ask[list[Description]] = _Ask("exchanges", {}, lambda value: value)
_BINDINGS: _Ask[list[Description]] = _Ask("bindings", {}, lambda value: value)
_POLICIES: _Ask[list[Description]] = _Ask("policies", {}, lambda value: value, POLICIES)
_DEFINITIONS: _Ask[Description] = _Ask("definitions", {}, lambda value: document_of(value))
_STATUS: _Ask[Description] = _Ask("status", {}, lambda value: value)


def _statistics(parts: tuple[str, ...]) -> _Ask[dict[str, list[Any]]]:
    return _Ask("statistics", {"what": list(parts)}, lambda value: value)


def _changed(value: Any) -> bool:
    return bool(value["changed"])


def _name(value: Any) -> str:
    return str(value["name"])


def _letters(value: Any) -> int:
    return int(value.get("dead_letters", 0))


def _nothing(value: Any) -> None:
    return None


def _same(value: Any) -> Description:
    return value


class Management:
    """Declaring and asking. Every method completes when every connected broker shows what it did.

    All raise, besides what they say: Invalid (an argument is not of the allowed form), ConnectionLost, Timeout,
    Unavailable (brokers came and went, and none has answered).
    """

    def _ask(self, ask: _Ask[T]) -> T:
        raise NotImplementedError

    @overload
    def declare_queue(  # pyright: ignore[reportOverlappingOverload]
        self, name: Literal[""], durable: bool = False, alternate: str = "", arguments: dict[str, Any] | None = None,
        passive: bool = False, **typed: Unpack[QueueKeywords],
    ) -> str: ...  # fmt: skip

    @overload
    def declare_queue(
        self, name: str, durable: bool = False, alternate: str = "", arguments: dict[str, Any] | None = None,
        passive: bool = False, **typed: Unpack[QueueKeywords],
    ) -> bool: ...  # fmt: skip

    def declare_queue(
        self, name: str, durable: bool = False, alternate: str = "", arguments: dict[str, Any] | None = None,
        passive: bool = False, *, max_count: int | None = None, max_size: int | None = None,
        overflow: str | None = None, priorities: int | None = None, last_value_key: str | None = None,
        group_key: str | None = None, fair_key: str | None = None, flow_stop_count: int | None = None,
        flow_resume_count: int | None = None, flow_stop_size: int | None = None, flow_resume_size: int | None = None,
        fairshare: int | None = None, sequence_key: str | None = None, single_active: bool | None = None,
        dead_letters: str | None = None, delivery_limit: int | None = None, dead_letter_key: str | None = None,
        dedupe_window_s: int | None = None, dedupe_window_count: int | None = None,
        auto_delete: bool | None = None, auto_delete_timeout_s: int | None = None, exclusive: bool | None = None,
        message_ttl_s: float | None = None, expires_s: float | None = None,
        consumer_timeout_s: float | None = None, retry_delay_s: Sequence[float] | None = None,
        retry_delay_min_s: float | None = None, retry_delay_max_s: float | None = None,
        lifetime: str | None = None,
    ) -> bool | str:  # fmt: skip
        """Create a queue unless it is there.

        Returns:
            Whether it is new; or, where the name is "", the name that the broker has made for it, like no other and
            not to be guessed: it begins with "manta.gen-".

        Args:
            durable: what is in it survives a stop of the whole cluster, and a power cut: nothing completes before it
                is on the disks of a majority. The cluster must have been started with a store (`--data DIR`).
            alternate: exchange for dead letters: what is rejected, has expired or come back too often, must make
                room, or is in it when it is deleted; not named, a queue that is there keeps the one it has.
                "x-dead-letter-exchange".
            arguments: names of your own are kept as they are; those that begin with qpid., x- or manta. are the
                brokers', and one that means nothing here is refused. Qpid's and RabbitMQ's names for the same are
                the same.
            passive: only check that it is there.
            max_count: of messages in it; "qpid.max_count", "x-max-length".
            max_size: of bytes in it, 64 more than its own for each message; "qpid.max_size", "x-max-length-bytes".
            overflow: what happens at such a limit; "reject", also where none is named: a message that comes is refused,
                and its sender gets ResourceLimitExceeded; "ring": the oldest message goes, also one that somebody
                holds, whose accept is then lost; "ring-strict": the oldest goes, and while somebody holds it the one
                that comes is refused; "self-destruct": the queue is deleted with all that is in it when it would
                exceed the limit; "dead-letter": the oldest that nobody holds goes to the alternate;
                "qpid.policy_type", "x-overflow".
            priorities: so many levels, 1 to 10, of which the highest goes first; messages have priorities 0 to 9, and 4
                without one; "qpid.priorities". RabbitMQ's "x-max-priority" has a level for each priority up to it.
            last_value_key: a header, of each value of which only the newest message waits; "qpid.last_value_queue_key".
            group_key: a header, of which messages with the same value are a group: of one consumer at a time, in order,
                until he has settled all that he holds of it; "qpid.group_header_key".
            fair_key: a header whose values take turns, so that a burst of one keeps no other waiting; "manta.fair_key".
            flow_stop_count, flow_stop_size: with more messages or bytes than that in it the queue holds its producers
                back: what they send comes in and does not complete, so a sender stops at its capacity; 0: it never
                does. Where messages are refused at a limit it is 80 % of that, unless given; "qpid.flow_stop_count".
            flow_resume_count, flow_resume_size: with less than both they go on; 70 % of the limit, unless given.
            fairshare: where there are priorities, so many messages of a level go, then the next lower one has its turn,
                and behind the lowest the highest again; "qpid.fairshare", and "qpid.fairshare-N" for level N alone.
            sequence_key: a header in which each message comes with its number in the queue, from 1, whoever gets it
                and however often; a message that is refused has had one too; "qpid.queue_msg_sequence".
            single_active: of its consumers, at all brokers, one at a time gets messages: the first that came, and when
                it has gone the next; "x-single-active-consumer".
            dead_letters: "all", unless given: what expires goes to the alternate, and what is in it when it is deleted;
                "rejected": that is discarded.
            delivery_limit: a message that comes back more often than that after it was delivered goes to the alternate,
                or is discarded; releases, modifies with `failed`, and the end of its consumer count; none, unless
                given; "x-delivery-limit".
            retry_delay_s: seconds for which a message waits that is back from a delivery in vain: after the first one,
                the second and so on, the last number for all further; [1, 5, 30]. What the consumers of a broker that
                dies held does not wait.
            retry_delay_min_s: or so many seconds for each such delivery, 5 for 5, 10, 15 and so on;
                "x-delayed-retry-min", in milliseconds. retry_delay_max_s: and so many at most; "x-delayed-retry-max".
            dead_letter_key: the key by which dead letters go to the alternate: the queue's name, unless given;
                "x-dead-letter-routing-key".
            dedupe_window_s: a message whose `message_id` came in within so many seconds, by the clocks of brokers, does
                not come in again: its send completes, and `duplicates` counts it; "manta.dedupe_window_s".
            dedupe_window_count: the same among so many ids before it, 1 to 1,000,000; the last 100,000 where only the
                seconds are given, and where both are, an id is known as long as both say so. A message without
                `message_id` always comes in; "manta.dedupe_window_count".
            auto_delete: it goes, with what is in it, when its last consumer has gone, at whatever broker, and none has
                come again in time; one that has had none yet stays, and browsers do not count; "manta.auto_delete".
            auto_delete_timeout_s: so many seconds; 0: it goes at once, also from under a client that looks for another
                broker. 40 where none is named: as long as a client may look for one (`reconnect_s`, 30) and wait for
                its answer (`timeout`, 10), so one that comes back finds the queue; "qpid.auto_delete_timeout".
            message_ttl_s: so many seconds after it has come each message expires, wherever it is in the queue, or
                earlier by its own `ttl`; to the millisecond. 0: unless a consumer that waits for it gets it at once;
                "x-message-ttl", in milliseconds.
            expires_s: it goes, with what is in it, when nobody has used it for so many seconds: it has no consumer, at
                whatever broker, and nobody declares it again; browsers and senders do not count; "x-expires", in
                milliseconds.
            consumer_timeout_s: a receiver that holds a message for longer ends (`TimedOut`), and all that it holds goes
                back, as a delivery that has failed; what it settles later is in `session.lost`; never, unless given;
                "x-consumer-timeout", in milliseconds.
            exclusive: it is this connection's alone, at whatever broker: others may send to it, and do not declare,
                receive from, browse, purge, delete, bind or unbind it. It goes when this connection is closed, or has
                been gone for `auto_delete_timeout_s`; "manta.exclusive".
            lifetime: Qpid's word for when it goes by itself: "manual", never; "delete-on-close", as with exclusive;
                "delete-if-unused", as with auto_delete; "delete-if-unused-and-empty", as that, and with nothing in it:
                it stays while there is, and goes when that has gone as well; "qpid.lifetime-policy".

        Raises:
            Exists: it is there with another definition.
            Invalid: an argument means nothing here, has a value that it does not take, or contradicts another.
            Unavailable: a member of the cluster is of an older version that does not know such an argument.
            NoStore: durable, and the cluster has no store.
            NotFound: passive and not there; or the alternate exchange is not there.
            InUse: it is exclusive to another connection.
        """
        typed: dict[str, Any] = {
                 "max_count": max_count, "max_size": max_size, "overflow": overflow, "priorities": priorities,
                 "last_value_key": last_value_key, "group_key": group_key, "fair_key": fair_key,
                 "flow_stop_count": flow_stop_count, "flow_resume_count": flow_resume_count,
                 "flow_stop_size": flow_stop_size, "flow_resume_size": flow_resume_size,
                 "fairshare": fairshare, "sequence_key": sequence_key, "single_active": single_active,
                 "dead_letters": dead_letters, "delivery_limit": delivery_limit,
                 "dead_letter_key": dead_letter_key,
                 "dedupe_window_s": dedupe_window_s, "dedupe_window_count": dedupe_window_count,
                 "retry_delay_s": listed(retry_delay_s),
                 "retry_delay_min_s": retry_delay_min_s, "retry_delay_max_s": retry_delay_max_s,
                 "auto_delete": auto_delete, "auto_delete_timeout_s": auto_delete_timeout_s,
                 "message_ttl_s": message_ttl_s, "expires_s": expires_s,
                 "consumer_timeout_s": consumer_timeout_s, "exclusive": exclusive, "lifetime": lifetime}  # fmt: skip
        try:
            return self._ask(_declare_queue(name, durable, alternate, arguments, passive, **typed))
        except Invalid as refused:
            raise _by_keyword(refused, typed) from None

    def queue_exists(self, name: str) -> bool:
        """Whether there is a queue of that name. `declare_queue(name, passive=True)` asks the same, and raises
        NotFound."""
        try:
            self._ask(_passive(name))
        except NotFound:
            return False
        return True

    def delete_queue(self, name: str, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue. What is in it, held messages included, goes to its alternate exchange, if it has one and all
        that dies goes there; else it goes with the queue. Whoever is attached hears Deleted.

        Returns:
            How many messages go to the alternate; some may be on their way still. The name is free.

        Args:
            if_unused: only if nobody is attached to it as a consumer, at any broker; browsers do not count.
            if_empty: only if nothing is in it, acquired and rejected messages included. What is sent meanwhile
                completes if it stays, and fails if it goes.

        Raises:
            NotFound: there is no such queue.
            InUse, NotEmpty: it is not so.
            Unavailable: that could not be found out; the queue stays, ask again.
        """
        return self._ask(_delete_queue(name, if_unused, if_empty))

    def reset_queue(self, name: str, even_durable: bool = False) -> None:
        """Give up a queue that can never go on: most of its replicas have died with what they held, and what is left of
        it can only be browsed. Whoever is attached hears Lost, and the name is free to be declared again.

        Args:
            even_durable: also a durable one, which its disks would bring back if they were put back.

        Raises:
            NotFound: there is no such queue.
            NotAllowed: it goes on, or would if somebody came back; or it is durable. The text says who has what.
            Unavailable: the cluster itself cannot decide anything now.
        """
        self._ask(_reset_queue(name, even_durable))

    def declare_exchange(
        self, name: str, type: str = "direct", durable: bool = False, alternate: str = "",
        arguments: dict[str, Any] | None = None, passive: bool = False, *, internal: bool = False,
        auto_delete: bool = False, sequence: bool = False, initial: bool = False,
    ) -> bool:  # fmt: skip
        """Create an exchange (direct, topic, fanout or headers) unless it is there. Returns whether it is new.

        Args:
            internal: nobody sends to it: what comes to it comes from exchanges that lead to it; "manta.internal".
            auto_delete: it goes with the last of its bindings, to queues and to exchanges; its senders hear NotFound.
                One that has had none yet stays. It cannot be an alternate; "manta.auto_delete".
            sequence: each message comes out with its number, 1, 2, 3, ..., in the property "qpid.msg_sequence"; every
                queue that is bound gets what its bindings take in that order. "qpid.msg_sequence".
            initial: a queue gets the last message that went through when it is bound, if its binding takes that;
                "qpid.ive". With either of the two a message is complete when the exchange has it, in a queue of its own
                ("manta.exchange." and its name), and goes on from there by itself.

        Raises Exists, NotFound, NotAllowed (amq. names, or the alternate goes by itself), Unavailable, as
        `declare_queue`.
        """
        return self._ask(
            _declare_exchange(
                name,
                type,
                durable,
                alternate,
                arguments,
                passive,
                internal=internal,
                auto_delete=auto_delete,
                sequence=sequence,
                initial=initial,
            )
        )

    def delete_exchange(self, name: str) -> None:
        """Delete an exchange and its bindings. Raises NotFound, NotAllowed, InUse (it is somebody's alternate)."""
        self._ask(_delete_exchange(name))

    def bind(self, exchange: str, queue: str, key: str = "", arguments: dict[str, Any] | None = None) -> bool:
        """Bind a queue; binding again changes nothing. At a direct exchange, or one declared so, a binding with
        "qpid.exclusive-binding" true takes the place of all others of its key, those of `bind_exchange` as well.

        Returns whether it is new. Raises NotFound, NotAllowed, Invalid.
        """
        return self._ask(_bind(exchange, queue, key, arguments))

    def unbind(self, exchange: str, queue: str, key: str = "") -> None:
        """Undo `bind`. Raises NotFound."""
        self._ask(_unbind(exchange, queue, key))

    def bind_exchange(
        self, exchange: str, to_exchange: str, key: str = "", arguments: dict[str, Any] | None = None
    ) -> bool:
        """Have the messages of one exchange go on to another as well, those that a queue bound so would get, and under
        the same key. A message comes through an exchange once, also where they are bound in a ring, and once to each
        queue. The binding goes with either exchange. An exchange's alternate is asked where no queue was reached.

        Returns whether it is new. Raises NotFound, NotAllowed, Unavailable (a member of the cluster is of an older
        version).
        """
        return self._ask(_bind_exchange(exchange, to_exchange, key, arguments))

    def unbind_exchange(self, exchange: str, to_exchange: str, key: str = "") -> None:
        """Undo `bind_exchange`. Raises NotFound."""
        self._ask(_unbind_exchange(exchange, to_exchange, key))

    def redirect_queue(self, source: str, target: str) -> bool:
        """From now on what is sent to one queue comes into another instead: by its name, by bindings, as a dead letter,
        or by a move. What is in the source stays, its consumers go on with it, and so do those that come later; what is
        sent to the target stays the target's. Senders notice nothing; a named one goes on at the queue that keeps its
        numbers. It ends with `end_redirect`, or when either queue is deleted, and moves nothing then.

        Args:
            source: a queue that is no other's target. target: one that is not redirected itself; it may be that of
                several.

        Returns:
            Whether it is new.

        Raises:
            NotFound: one of them is not there. Exists: the source is redirected elsewhere. NotAllowed: it would be a
                chain, or one is an exchange's own queue. Invalid: they are the same. InUse: one of them another client
                has for itself. Unavailable: a member of the cluster is of an older version.
        """
        return self._ask(_redirect_queue(source, target))

    def close_connection(self, client: str, reason: str = "") -> None:
        """Close the connection of another client to the broker that this connection has. It hears ConnectionLost, with
        the reason (its first 500 characters), and does not come back by itself; what its consumers held goes back to
        its place.

        Raises:
            NotFound: that broker has no such client; `statistics("connections")` says who is where. Invalid: the broker
                is of an older version, which closes none.
        """
        self._ask(_close_connection(client, reason))

    def end_redirect(self, source: str) -> None:
        """Undo `redirect_queue`: what is sent to that queue comes into it again. Raises NotFound."""
        self._ask(_end_redirect(source))

    def add_policy(
        self, name: str, pattern: str, *, priority: int = 0, operator: bool = False, alternate: str = "",
        arguments: dict[str, Any] | None = None, **settings: Unpack[PolicyKeywords],
    ) -> bool:  # fmt: skip
        """Have queues whose names fit a pattern get settings that they do not name themselves: those that are there,
        with all that is in them, and those that are declared after this, for as long as the policy is there. One of
        that name is replaced. Of several that fit, the one with the highest priority is the queue's, and no other.

        What is sent to the same broker when this has returned finds the queues so. Where a limit is less than what a
        queue holds, the oldest go at once if they would go for another message (overflow ring or dead-letter), and else
        what comes is refused as soon as every broker knows of it. Messages that are there keep the time that they had
        to live.

        Args:
            pattern: a regular expression that is searched for in the name: `^orders[.]`; without back references, and
                without what looks ahead or behind, so that none takes long.
            priority: the highest one wins; of equals the name that comes first.
            operator: the numbers are the most that a queue gets, whatever it or another policy says; of max_count,
                max_size, message_ttl_s, expires_s and delivery_limit. These have names and priorities of their own.
            alternate: as of `declare_queue`, as are `settings`; where there is no such exchange, the queue has none.
            arguments: the same by brokers' names, such as "x-max-length".
            settings: max_count, max_size, overflow, flow_stop_count, flow_resume_count, flow_stop_size,
                flow_resume_size, message_ttl_s, expires_s, delivery_limit, retry_delay_s,
                retry_delay_min_s, retry_delay_max_s, dead_letters, dead_letter_key.

        Returns:
            Whether it is new, or another one than before.

        Raises:
            Invalid: it is no pattern, and where; or it sets nothing, or what no policy can set. Unavailable: a member
                of the cluster is of an older version.
        """
        return self._ask(_add_policy(name, pattern, priority, operator, alternate, arguments, **settings))

    def delete_policy(self, name: str, operator: bool = False) -> None:
        """Delete a policy: what queues have got by it they have no more. Raises NotFound."""
        self._ask(_delete_policy(name, operator))

    def policies(self) -> list[Description]:
        """All policies, those of operators behind the others: name, pattern, priority, operator, and `settings`."""
        return self._ask(_POLICIES)

    def queue(self, name: str) -> Description:
        """A queue: its "kind", its "definition" by the keywords of `declare_queue` with the thresholds of flow control
        in force, the queue it is "redirected_to" and those that it is "redirected_from", if any, the brokers that it is
        "kept_by", and its numbers: messages, bytes, acquired, owner, ...

        Raises:
            NotFound: there is none.
            Unavailable: it has no majority of its replicas.
        """
        return self._ask(_queue(name))

    def queues(self) -> list[Description]:
        """`queue` of every queue that this broker can tell of, in the order of their names. One that does not answer
        within some seconds, as without a majority, is described as it was declared, with an "error" that says why."""
        return self._ask(_QUEUES)

    def exchanges(self) -> list[Description]:
        """All exchanges: name, type, durable, alternate, arguments."""
        return self._ask(_EXCHANGES)

    def bindings(self) -> list[Description]:
        """All bindings: exchange, queue, key, arguments; those to exchanges have queue "", and `to_exchange`."""
        return self._ask(_BINDINGS)

    def definitions(self) -> Description:
        """All exchanges, queues and bindings of one moment, as the document that `mantamq definitions export` writes:
        of values that JSON has, and in the order of their names. What is there from the beginning is left out, and what
        exchanges have for themselves.

        Raises:
            Invalid: the broker is of an older version, which has no definitions.
        """
        return self._ask(_DEFINITIONS)

    def status(self) -> Description:
        """The broker's report of itself and the cluster."""
        return self._ask(_STATUS)

    def statistics(self, *parts: str) -> dict[str, list[Any]]:
        """Figures of the whole cluster, for people and for what watches it.

        Args:
            parts: of "queues", "exchanges", "brokers", "connections", "links" and "groups"; all, where none is named.

        Returns:
            Part -> a description of each. Of queues: as `queues`, with the "consumers" of all brokers, where those are
            ("consumers_at") and the number of "bindings". Of exchanges: "bindings", messages "received", "routed" and
            "unroutable", since the brokers that are here began. Of connections: the client, where it is ("address") and
            since when ("since_ms", Unix time), its broker, what it has sent by its senders, its credit, and whether its
            senders are held back: its "state" ("running"; "flow": what it has sent waits; "blocked": it may send no
            more), the queues it is "held_back_by", and "why", in words; at most 1,000 of a broker, without these three
            where that is before protocol 1.9. Of links, which are the senders and receivers of sessions: client and
            broker, "role" and "handle"; of senders the exchange, the key (None: each message has its own) and how many
            messages it has "sent"; of receivers the queue, how they were attached, whether one "waits" for its turn,
            its credit, and how many messages it was "delivered"; at most 1,000 of a broker, and none of one of an older
            version. Of brokers: how many connections, senders and receivers they have, "unacked" messages, consume
            "locks", connections that were "opened" and "closed", "queues_declared" and "queues_deleted", since they
            began. Of groups: message groups that a consumer holds. And "silent": brokers that have not answered in
            time, so that what they alone know is missing.

        Raises:
            Invalid: there is no such part; or the broker is of an older version, which has no statistics.
        """
        return self._ask(_statistics(parts))


class AsyncManagement:
    """As `Management`, awaited.

    All raise, besides what they say: Invalid (an argument is not of the allowed form), ConnectionLost, Timeout,
    Unavailable (brokers came and went, and none has answered).
    """

    async def _ask(self, ask: _Ask[T]) -> T:
        raise NotImplementedError

    @overload
    async def declare_queue(  # pyright: ignore[reportOverlappingOverload]
        self, name: Literal[""], durable: bool = False, alternate: str = "", arguments: dict[str, Any] | None = None,
        passive: bool = False, **typed: Unpack[QueueKeywords],
    ) -> str: ...  # fmt: skip

    @overload
    async def declare_queue(
        self, name: str, durable: bool = False, alternate: str = "", arguments: dict[str, Any] | None = None,
        passive: bool = False, **typed: Unpack[QueueKeywords],
    ) -> bool: ...  # fmt: skip

    async def declare_queue(
        self, name: str, durable: bool = False, alternate: str = "", arguments: dict[str, Any] | None = None,
        passive: bool = False, *, max_count: int | None = None, max_size: int | None = None,
        overflow: str | None = None, priorities: int | None = None, last_value_key: str | None = None,
        group_key: str | None = None, fair_key: str | None = None, flow_stop_count: int | None = None,
        flow_resume_count: int | None = None, flow_stop_size: int | None = None, flow_resume_size: int | None = None,
        fairshare: int | None = None, sequence_key: str | None = None, single_active: bool | None = None,
        dead_letters: str | None = None, delivery_limit: int | None = None, dead_letter_key: str | None = None,
        dedupe_window_s: int | None = None, dedupe_window_count: int | None = None,
        auto_delete: bool | None = None, auto_delete_timeout_s: int | None = None, exclusive: bool | None = None,
        message_ttl_s: float | None = None, expires_s: float | None = None,
        consumer_timeout_s: float | None = None, retry_delay_s: Sequence[float] | None = None,
        retry_delay_min_s: float | None = None, retry_delay_max_s: float | None = None,
        lifetime: str | None = None,
    ) -> bool | str:  # fmt: skip
        """As `Connection.declare_queue`."""
        typed: dict[str, Any] = {
                 "max_count": max_count, "max_size": max_size, "overflow": overflow, "priorities": priorities,
                 "last_value_key": last_value_key, "group_key": group_key, "fair_key": fair_key,
                 "flow_stop_count": flow_stop_count, "flow_resume_count": flow_resume_count,
                 "flow_stop_size": flow_stop_size, "flow_resume_size": flow_resume_size,
                 "fairshare": fairshare, "sequence_key": sequence_key, "single_active": single_active,
                 "dead_letters": dead_letters, "delivery_limit": delivery_limit,
                 "dead_letter_key": dead_letter_key,
                 "dedupe_window_s": dedupe_window_s, "dedupe_window_count": dedupe_window_count,
                 "retry_delay_s": listed(retry_delay_s),
                 "retry_delay_min_s": retry_delay_min_s, "retry_delay_max_s": retry_delay_max_s,
                 "auto_delete": auto_delete, "auto_delete_timeout_s": auto_delete_timeout_s,
                 "message_ttl_s": message_ttl_s, "expires_s": expires_s,
                 "consumer_timeout_s": consumer_timeout_s, "exclusive": exclusive, "lifetime": lifetime}  # fmt: skip
        try:
            return await self._ask(_declare_queue(name, durable, alternate, arguments, passive, **typed))
        except Invalid as refused:
            raise _by_keyword(refused, typed) from None

    async def queue_exists(self, name: str) -> bool:
        """As `Connection.queue_exists`."""
        try:
            await self._ask(_passive(name))
        except NotFound:
            return False
        return True

    async def delete_queue(self, name: str, if_unused: bool = False, if_empty: bool = False) -> int:
        """As `Connection.delete_queue`."""
        return await self._ask(_delete_queue(name, if_unused, if_empty))

    async def reset_queue(self, name: str, even_durable: bool = False) -> None:
        """As `Connection.reset_queue`."""
        await self._ask(_reset_queue(name, even_durable))

    async def declare_exchange(
        self, name: str, type: str = "direct", durable: bool = False, alternate: str = "",
        arguments: dict[str, Any] | None = None, passive: bool = False, *, internal: bool = False,
        auto_delete: bool = False, sequence: bool = False, initial: bool = False,
    ) -> bool:  # fmt: skip
        """As `Connection.declare_exchange`."""
        return await self._ask(
            _declare_exchange(
                name,
                type,
                durable,
                alternate,
                arguments,
                passive,
                internal=internal,
                auto_delete=auto_delete,
                sequence=sequence,
                initial=initial,
            )
        )

    async def delete_exchange(self, name: str) -> None:
        """As `Connection.delete_exchange`."""
        await self._ask(_delete_exchange(name))

    async def bind(self, exchange: str, queue: str, key: str = "", arguments: dict[str, Any] | None = None) -> bool:
        """As `Connection.bind`."""
        return await self._ask(_bind(exchange, queue, key, arguments))

    async def unbind(self, exchange: str, queue: str, key: str = "") -> None:
        """As `Connection.unbind`."""
        await self._ask(_unbind(exchange, queue, key))

    async def bind_exchange(
        self, exchange: str, to_exchange: str, key: str = "", arguments: dict[str, Any] | None = None
    ) -> bool:
        """As `Connection.bind_exchange`."""
        return await self._ask(_bind_exchange(exchange, to_exchange, key, arguments))

    async def unbind_exchange(self, exchange: str, to_exchange: str, key: str = "") -> None:
        """As `Connection.unbind_exchange`."""
        await self._ask(_unbind_exchange(exchange, to_exchange, key))

    async def redirect_queue(self, source: str, target: str) -> bool:
        """As `Connection.redirect_queue`."""
        return await self._ask(_redirect_queue(source, target))

    async def close_connection(self, client: str, reason: str = "") -> None:
        """As `Connection.close_connection`."""
        await self._ask(_close_connection(client, reason))

    async def end_redirect(self, source: str) -> None:
        """As `Connection.end_redirect`."""
        await self._ask(_end_redirect(source))

    async def add_policy(
        self, name: str, pattern: str, *, priority: int = 0, operator: bool = False, alternate: str = "",
        arguments: dict[str, Any] | None = None, **settings: Unpack[PolicyKeywords],
    ) -> bool:  # fmt: skip
        """As `Connection.add_policy`."""
        return await self._ask(_add_policy(name, pattern, priority, operator, alternate, arguments, **settings))

    async def delete_policy(self, name: str, operator: bool = False) -> None:
        """As `Connection.delete_policy`."""
        await self._ask(_delete_policy(name, operator))

    async def policies(self) -> list[Description]:
        """As `Connection.policies`."""
        return await self._ask(_POLICIES)

    async def queue(self, name: str) -> Description:
        """As `Connection.queue`."""
        return await self._ask(_queue(name))

    async def queues(self) -> list[Description]:
        """As `Connection.queues`."""
        return await self._ask(_QUEUES)

    async def exchanges(self) -> list[Description]:
        """As `Connection.exchanges`."""
        return await self._ask(_EXCHANGES)

    async def bindings(self) -> list[Description]:
        """As `Connection.bindings`."""
        return await self._ask(_BINDINGS)

    async def definitions(self) -> Description:
        """As `Connection.definitions`."""
        return await self._ask(_DEFINITIONS)

    async def status(self) -> Description:
        """As `Connection.status`."""
        return await self._ask(_STATUS)

    async def statistics(self, *parts: str) -> dict[str, list[Any]]:
        """As `Connection.statistics`."""
        return await self._ask(_statistics(parts))
