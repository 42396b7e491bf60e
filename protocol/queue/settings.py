"""The settings of one queue: of its declaration, all that changes how the queue behaves.

`Host` carries the declaration to each replica, which reads these from it. An argument becomes a setting by one field:

    max_count: Annotated[int, Meta(ge=1), Argument("qpid.max_count", "give an int of at least 1, or leave it out")] = 0

By it a broker knows the name, refuses a value below 1 with that text, and each `HostedQueue` has `settings.max_count`.
A setting that changes how a queue's stream is applied is refused while the cluster has a member that does not know it
(`Heartbeat.least`): two versions would apply the same events differently.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..wire.settings import Argument

MESSAGE_BYTES = 64
"""What a message counts for in the size of a queue besides its own bytes, headers and all."""
RING, RING_STRICT, REJECT, SELF_DESTRUCT, DEAD_LETTER = "ring", "ring-strict", "reject", "self-destruct", "dead-letter"
ROLLING = (RING, DEAD_LETTER)
"""What happens at a limit where the oldest makes room."""
ALL = "all"
MANUAL, ON_CLOSE, IF_UNUSED, IF_EMPTY = "manual", "delete-on-close", "delete-if-unused", "delete-if-unused-and-empty"
"""Qpid's words for when a queue goes by itself."""
_AT_LIMIT = (("drop-head", RING), ("reject-publish", REJECT))
"""RabbitMQ's words for what happens at a limit."""
DEFAULT = -1
"""A threshold of flow control that is not given: a part of the limit, where the limit refuses messages."""
LEVELS = ("count", "size", "age")
AUTO_DELETE_TIMEOUT_S = 40
"""How long a queue that goes by itself waits for its consumers, unless it says otherwise: a client that has lost its
broker looks for another one for 30 s, and waits 10 s for that to take it in (the defaults of `connect`)."""
DEDUPE_COUNT = 100_000
"""How many message ids a queue knows that drops duplicates, unless it says otherwise."""
ALERT_GAP_S = 60
"""From one alert to the next (Qpid's default)."""
STOP_PERCENT, RESUME_PERCENT = 80, 70
"""Of its limit, where a queue stops its producers and lets them go on, unless it says otherwise (Qpid's defaults)."""


class QueueSettings(msgspec.Struct, frozen=True):
    """Attributes:
    alternate: exchange for dead letters, "" to discard them; of the declaration itself, not of its arguments.
    max_count: of messages in the queue, 0 for no limit.
    max_size: of bytes in the queue (`MESSAGE_BYTES` more for each message), 0 for no limit.
    overflow: what happens at a limit; "ring": the oldest message goes; "ring-strict": the same, but a message is
        refused while a consumer holds the oldest; "reject": a message that comes is refused; "self-destruct": the
        queue is deleted with all that is in it when it would exceed the limit; "dead-letter": the oldest that waits
        goes to the alternate.
    flow_stop_count, flow_stop_size: with more messages or bytes than that the queue holds its producers back; 0: never.
    flow_resume_count, flow_resume_size: with less than both it lets them go on.
    priorities: so many levels of priority, by AMQP 0-10's rule; 0: the queue has none.
    max_priority: a level for each priority up to this one, and one below them, as RabbitMQ has them; 0: it has none.
    fairshare: of each level so many messages go, then the next one has its turn; 0: as many as wait.
    fairshare_of: level -> the same, where it is another number.
    last_value_key: header by which only the newest message of each value waits; "" for none.
    group_key: header by which messages are of groups, each of one consumer at a time; "" for none.
    fair_key: header whose values take turns; "" for none.
    shared_groups: a group is a consumer's while it holds messages of it; there are no others.
    sequence_key: header that has each message's number in the queue when it is delivered; "" for none.
    alert_count_up, alert_size_up, alert_age_up: with so many messages or bytes in it, or a message of so many seconds,
        an alert is told; 0: never. alert_..._down: with no more than that, that it is over; half of it, unless given.
    alert_repeat_gap: seconds from one alert to the next of the same level, while it stays; 0: it is told once.
    single_active: one consumer at a time gets messages, in the whole cluster: the first that came, while it is there.
    dead_letters: what goes to the alternate; "all": what expires, and what is in it when it is deleted, too;
        "rejected", "": what is rejected, and what a limit that says so sends there.
    delivery_limit: a message that comes back when it was delivered more often than that, in vain, is a dead letter; 0:
        never.
    retry_delay_s: after its first delivery in vain a message is available again so many seconds later, after the second
        the next number, and so on, the last one for all further; empty: at once.
    retry_delay_min_ms: it is available again after so many ms for each of its deliveries in vain; 0: at once.
    retry_delay_max_ms: and after so many at most; 0: without such a bound.
    dead_letter_key: by which dead letters go to the alternate; "": by the queue's name.
    auto_delete: it goes when its last consumer in the whole cluster has gone; one that has had none yet stays.
    auto_delete_timeout_s: it waits so long, in seconds, for one to come again; `AUTO_DELETE_TIMEOUT_S`, unless given.
    lifetime: Qpid's word for when it goes; "delete-if-unused-and-empty": as with auto_delete, and only when nothing is
        in it; the others are said by auto_delete and exclusive, when it is ordered.
    message_ttl_ms: each message expires so long after it came, in ms, or earlier by its own ttl; 0: at once, unless a
        consumer that waits gets it; `DEFAULT`: never.
    expires_ms: it goes when nobody has used it for so long, in ms; 0: it stays.
    consumer_timeout_ms: a consumer that holds a message for longer is ended, and what it holds goes back; 0: never.
    exclusive: it is the client's that has declared it, and goes when its connection is closed, or gone for as long.
    dedupe_window_s, dedupe_window_count: a message whose id came within so many seconds, or among so many ids before
        it, does not come in; 0: without such a bound, and without both it looks at no ids.
    exchange: it is this exchange's own, and all that comes goes on from there (`relay.py`); "" for no such queue.
    exchange_sequence: with its number. exchange_initial: the last message stays, for queues that are bound later.
    """

    alternate: str = ""
    max_count: Annotated[
        int, Meta(ge=1),
        Argument("qpid.max_count", "give a number of messages, at least 1, or leave it out for no limit",
                 ("x-max-length",)),
    ] = 0  # fmt: skip
    max_size: Annotated[
        int, Meta(ge=1),
        Argument("qpid.max_size", "give a number of bytes, at least 1, or leave it out for no limit",
                 ("x-max-length-bytes",)),
    ] = 0  # fmt: skip
    overflow: Annotated[
        Literal["", "ring", "ring-strict", "reject", "self-destruct", "dead-letter"],
        Argument("qpid.policy_type",
                 "give reject (x-overflow: reject-publish), ring (drop-head), ring-strict, self-destruct or "
                 "dead-letter",
                 ("x-overflow",), _AT_LIMIT),
    ] = ""  # fmt: skip
    flow_stop_count: Annotated[
        int, Meta(ge=0), Argument("qpid.flow_stop_count", "give a number of messages, or 0 for no flow control by it"),
    ] = DEFAULT  # fmt: skip
    flow_resume_count: Annotated[
        int, Meta(ge=1), Argument("qpid.flow_resume_count", "give a number of messages, at least 1, or leave it out"),
    ] = DEFAULT  # fmt: skip
    flow_stop_size: Annotated[
        int, Meta(ge=0), Argument("qpid.flow_stop_size", "give a number of bytes, or 0 for no flow control by it"),
    ] = DEFAULT  # fmt: skip
    flow_resume_size: Annotated[
        int, Meta(ge=1), Argument("qpid.flow_resume_size", "give a number of bytes, at least 1, or leave it out"),
    ] = DEFAULT  # fmt: skip

    priorities: Annotated[
        int, Meta(ge=1, le=10), Argument("qpid.priorities", "give 1 to 10 levels, or leave it out for none"),
    ] = 0  # fmt: skip
    max_priority: Annotated[
        int, Meta(ge=1, le=255),
        Argument("x-max-priority", "give the highest priority, 1 to 255, or leave it out for none"),
    ] = 0  # fmt: skip
    fairshare: Annotated[
        int, Meta(ge=0),
        Argument("qpid.fairshare", "give a number of messages of each level, or 0 for as many as wait",
                 ("x-qpid-fairshare",)),
    ] = 0  # fmt: skip
    fairshare_of: Annotated[
        dict[int, Annotated[int, Meta(ge=0)]],
        Argument("qpid.fairshare", "give a number of messages of this level, or 0 for as many as wait",
                 ("x-qpid-fairshare",), each=10),
    ] = {}  # fmt: skip
    last_value_key: Annotated[
        str, Meta(min_length=1, max_length=255),
        Argument("qpid.last_value_queue_key", "give the name of a header, or leave it out"),
    ] = ""  # fmt: skip

    group_key: Annotated[
        str, Meta(min_length=1, max_length=255),
        Argument("qpid.group_header_key", "give the name of a header, or leave it out"),
    ] = ""  # fmt: skip
    fair_key: Annotated[
        str, Meta(min_length=1, max_length=255),
        Argument("manta.fair_key", "give the name of a header, or leave it out"),
    ] = ""  # fmt: skip
    shared_groups: Annotated[
        Literal[1],
        Argument("qpid.shared_msg_group", "give 1, or leave it out: a group is a consumer's while it holds some of it"),
    ] = 1  # fmt: skip
    sequence_key: Annotated[
        str, Meta(min_length=1, max_length=255),
        Argument("qpid.queue_msg_sequence", "give the name of a header, or leave it out"),
    ] = ""  # fmt: skip

    @property
    def levels(self) -> int:
        """How many levels of priority it has."""
        return self.max_priority + 1 if self.max_priority else max(1, self.priorities)

    @property
    def shares(self) -> tuple[int, ...]:
        """Of each level, the lowest first, so many messages in a turn, 0: as many as wait. Empty: none has a share."""
        shares = tuple(self.fairshare_of.get(level, self.fairshare) for level in range(self.levels))
        return shares if any(shares) else ()

    alert_count_up: Annotated[
        int, Meta(ge=1),
        Argument("qpid.alert_count_up", "give a number of messages, at least 1, or leave it out",
                 ("qpid.alert_count",)),
    ] = 0  # fmt: skip
    alert_count_down: Annotated[
        int, Meta(ge=0), Argument("qpid.alert_count_down", "give a number of messages, or leave it out"),
    ] = DEFAULT  # fmt: skip
    alert_size_up: Annotated[
        int, Meta(ge=1),
        Argument("qpid.alert_size_up", "give a number of bytes, at least 1, or leave it out",
                 ("qpid.alert_size",)),
    ] = 0  # fmt: skip
    alert_size_down: Annotated[
        int, Meta(ge=0), Argument("qpid.alert_size_down", "give a number of bytes, or leave it out"),
    ] = DEFAULT  # fmt: skip
    alert_age_up: Annotated[
        int, Meta(ge=1), Argument("manta.alert_age_up", "give a number of seconds, at least 1, or leave it out"),
    ] = 0  # fmt: skip
    alert_age_down: Annotated[
        int, Meta(ge=0), Argument("manta.alert_age_down", "give a number of seconds, or leave it out"),
    ] = DEFAULT  # fmt: skip
    alert_repeat_gap: Annotated[
        int, Meta(ge=0, le=10**9), Argument("qpid.alert_repeat_gap", "give a number of seconds, or 0 for no repeats"),
    ] = ALERT_GAP_S  # fmt: skip

    @property
    def alerts(self) -> dict[str, tuple[int, int]]:
        """Which level has an alert -> (from where on it is told, from where on it is over)."""
        given = {what: (getattr(self, f"alert_{what}_up"), getattr(self, f"alert_{what}_down")) for what in LEVELS}
        return {what: (up, up // 2 if down == DEFAULT else down) for what, (up, down) in given.items() if up}

    single_active: Annotated[
        bool,
        Argument("x-single-active-consumer", "give true, or leave it out", words=(("true", True), ("false", False))),
    ] = False

    dead_letters: Annotated[
        Literal["", "rejected", "all"],
        Argument("manta.dead_letters", "give all, or rejected for nothing else than what consumers reject"),
    ] = ""  # fmt: skip
    delivery_limit: Annotated[
        int, Meta(ge=1),
        Argument("manta.delivery_limit", "give a number of deliveries, at least 1, or leave it out for no limit",
                 ("x-delivery-limit",)),
    ] = 0  # fmt: skip
    retry_delay_s: Annotated[
        list[Annotated[float, Meta(ge=0, le=10**9)]], Meta(min_length=1, max_length=100),
        Argument("manta.retry_delay_s",
                 "give 1 to 100 numbers of seconds, such as [1, 5, 30]; or retry_delay_min_s=5 for 5, 10, 15, ..."),
    ] = []  # fmt: skip
    retry_delay_min_ms: Annotated[
        int, Meta(ge=1, lt=1 << 48),
        Argument("x-delayed-retry-min", "give a number of milliseconds, 1 to 2^48, or leave it out"),
    ] = 0  # fmt: skip
    retry_delay_max_ms: Annotated[
        int, Meta(ge=1, lt=1 << 48),
        Argument("x-delayed-retry-max", "give a number of milliseconds, 1 to 2^48, or leave it out for no bound"),
    ] = 0  # fmt: skip
    retry_type: Annotated[
        Literal["", "failed", "disabled"],
        Argument("x-delayed-retry-type", "give failed (what comes back from a delivery that counts), or disabled"),
    ] = ""  # fmt: skip
    dead_letter_key: Annotated[
        str, Meta(min_length=1, max_length=255),
        Argument("manta.dead_letter_key", "give a routing key, or leave it out for the queue's name",
                 ("x-dead-letter-routing-key",)),
    ] = ""  # fmt: skip
    auto_delete: Annotated[
        bool, Argument("manta.auto_delete", "give true, or leave it out", words=(("true", True), ("false", False))),
    ] = False  # fmt: skip
    auto_delete_timeout_s: Annotated[
        int, Meta(ge=0, le=10**9),
        Argument("qpid.auto_delete_timeout", "give a number of seconds, or 0 to have it go at once"),
    ] = DEFAULT  # fmt: skip

    lifetime: Annotated[
        Literal["", "manual", "delete-on-close", "delete-if-unused", "delete-if-unused-and-empty"],
        Argument("qpid.lifetime-policy",
                 "give manual, delete-on-close, delete-if-unused or delete-if-unused-and-empty"),
    ] = ""  # fmt: skip

    message_ttl_ms: Annotated[
        int, Meta(ge=0, lt=1 << 48),
        Argument("x-message-ttl", "give a number of milliseconds, 0 to 2^48, or leave it out for none"),
    ] = DEFAULT  # fmt: skip

    expires_ms: Annotated[
        int, Meta(ge=1, lt=1 << 48),
        Argument("x-expires", "give a number of milliseconds, 1 to 2^48, or leave it out to have the queue stay"),
    ] = 0  # fmt: skip

    consumer_timeout_ms: Annotated[
        int, Meta(ge=1, lt=1 << 48),
        Argument("x-consumer-timeout", "give a number of milliseconds, 1 to 2^48, or leave it out for none"),
    ] = 0  # fmt: skip

    exclusive: Annotated[
        bool, Argument("manta.exclusive", "give true, or leave it out", words=(("true", True), ("false", False))),
    ] = False  # fmt: skip

    @property
    def goes_empty(self) -> bool:
        """Whether it goes with its last consumer only when nothing is in it."""
        return self.lifetime == IF_EMPTY

    @property
    def vacant_s(self) -> int:
        """How many seconds it waits for somebody to use it again, or for its client."""
        return AUTO_DELETE_TIMEOUT_S if self.auto_delete_timeout_s == DEFAULT else self.auto_delete_timeout_s

    @property
    def delays_retries(self) -> bool:
        """Whether what comes back from a delivery in vain waits."""
        return bool(self.retry_delay_s or self.retry_delay_min_ms)

    @property
    def leaves_letters(self) -> bool:
        """Whether all that it loses goes to its alternate: what expires, and what is in it when it is deleted."""
        return bool(self.alternate) and self.dead_letters == ALL

    dedupe_window_s: Annotated[
        int, Meta(ge=1, le=10**9),
        Argument("manta.dedupe_window_s", "give a number of seconds, at least 1, or leave it out"),
    ] = 0  # fmt: skip
    dedupe_window_count: Annotated[
        int, Meta(ge=1, le=1_000_000),
        Argument("manta.dedupe_window_count", "give a number of messages, 1 to 1,000,000, or leave it out"),
    ] = 0  # fmt: skip

    @property
    def dedupes(self) -> bool:
        """Whether it takes a message id once."""
        return bool(self.dedupe_window_s or self.dedupe_window_count)

    @property
    def dedupe_most(self) -> int:
        """How many ids it knows at most."""
        return self.dedupe_window_count or DEDUPE_COUNT

    exchange: Annotated[str, Meta(min_length=1), Argument("manta.exchange", "it is an exchange's own")] = ""
    exchange_sequence: Annotated[bool, Argument("manta.exchange_sequence", "it is an exchange's own")] = False
    exchange_initial: Annotated[bool, Argument("manta.exchange_initial", "it is an exchange's own")] = False

    @property
    def limited(self) -> bool:
        return bool(self.max_count or self.max_size)

    @property
    def refuses(self) -> bool:
        """Whether a message may be refused: at a limit, or since it is larger than that."""
        return self.limited and (self.overflow not in ROLLING or self.max_size > 0)

    @property
    def judges(self) -> bool:
        """Whether it is for the queue to say what becomes of a transfer that is committed."""
        return self.refuses or any(stop for stop, _ in self.thresholds)

    @property
    def thresholds(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of flow control by count and by bytes: (with more it stops, 0: never; with less it goes on)."""
        given = (
            (self.max_count, self.flow_stop_count, self.flow_resume_count),
            (self.max_size, self.flow_stop_size, self.flow_resume_size),
        )
        by_count, by_size = (_thresholds(limit * (self.overflow == REJECT), *rest) for limit, *rest in given)
        return by_count, by_size


def _thresholds(limit: int, stop: int, resume: int) -> tuple[int, int]:
    if stop == DEFAULT:
        stop = limit * STOP_PERCENT // 100
        rest = limit * RESUME_PERCENT // 100
    else:
        rest = stop * RESUME_PERCENT // STOP_PERCENT
    return (stop, max(1, rest if resume == DEFAULT else resume)) if stop else (0, 0)
