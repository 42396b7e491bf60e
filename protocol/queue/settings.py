"""The settings of one queue: of its declaration, all that changes how the queue behaves.

`Host` carries the declaration to each replica, which reads these from it. An argument becomes a setting by one field:

    max_count: Annotated[int, Meta(ge=1), Argument("qpid.max_count", "give an int of at least 1, or leave it out")] = 0

By it a broker knows the name, refuses a value below 1 with that text, and each `HostedQueue` has `settings.max_count`.
A setting that changes how a queue's stream is applied is refused while the cluster has a member that does not know it
(`Heartbeat.least`): two versions would apply the same events differently.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ..errors import INVALID, PeerError
from ..wire.settings import Argument, parse

MESSAGE_BYTES = 64
"""What a message counts for in the size of a queue besides its own bytes, headers and all."""
RING = "ring"
_WHAT_GOES = (("drop-head", RING),)
"""RabbitMQ's words for what happens at a limit."""


class QueueSettings(msgspec.Struct, frozen=True):
    """Attributes:
    alternate: exchange for rejected messages, "" to discard them; of the declaration itself, not of its arguments.
    max_count: of messages in the queue, 0 for no limit.
    max_size: of bytes in the queue (`MESSAGE_BYTES` more for each message), 0 for no limit.
    overflow: what happens at a limit; "ring": the oldest message goes.
    priorities: so many levels of priority, by AMQP 0-10's rule; 0: the queue has none.
    max_priority: a level for each priority up to this one, and one below them, as RabbitMQ has them; 0: it has none.
    last_value_key: header by which only the newest message of each value waits; "" for none.
    group_key: header by which messages are of groups, each of one consumer at a time; "" for none.
    fair_key: header whose values take turns; "" for none.
    shared_groups: a group is a consumer's while it holds messages of it; there are no others.
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
        Literal["", "ring"],
        Argument("qpid.policy_type", "give ring (x-overflow: drop-head), by which the oldest message goes",
                 ("x-overflow",), _WHAT_GOES),
    ] = ""  # fmt: skip

    priorities: Annotated[
        int, Meta(ge=1, le=10), Argument("qpid.priorities", "give 1 to 10 levels, or leave it out for none"),
    ] = 0  # fmt: skip
    max_priority: Annotated[
        int, Meta(ge=1, le=255),
        Argument("x-max-priority", "give the highest priority, 1 to 255, or leave it out for none"),
    ] = 0  # fmt: skip
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

    @property
    def limited(self) -> bool:
        return bool(self.max_count or self.max_size)


def declared(arguments: dict[str, Any]) -> QueueSettings:
    """The settings that a client declares a queue with: each argument by itself, and all of them together.

    Raises:
        PeerError: `invalid`, an argument has a value that it does not take; or two contradict each other.
    """
    settings = parse(QueueSettings, "queue", arguments)
    if settings.priorities and settings.max_priority:
        raise PeerError(INVALID, "qpid.priorities and x-max-priority are two ways to have levels: give one")
    kinds = {
        "priorities": settings.priorities or settings.max_priority,
        "last_value_key": settings.last_value_key,
        "group_key": settings.group_key,
        "fair_key": settings.fair_key,
    }
    if len(given := [name for name, value in kinds.items() if value]) > 1:
        raise PeerError(INVALID, f"a queue has one of {', '.join(given)}, not two of them: leave out all but one")
    if settings.overflow and not settings.limited:
        text = "a queue that is a ring needs a limit: give max_count or max_size, or leave out what happens there"
        raise PeerError(INVALID, text)
    if settings.limited and not settings.overflow:
        if not {"x-max-length", "x-max-length-bytes"}.intersection(arguments):
            text = "a limit needs what happens there, and this version knows ring: give qpid.policy_type=ring"
            raise PeerError(INVALID, text)
        settings = replace(settings, overflow=RING)  # RabbitMQ's queues drop from the head unless they say otherwise
    return settings
