"""A client's pattern of queues or exchanges, as the broker that is asked has it ordered: in the one spelling, and
nothing in it that a declaration would be refused for whatever its name."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from ..errors import INVALID, PeerError
from ..queue.described import definition
from ..queue.settings import QueueSettings
from ..wire.pattern_events import PutPattern
from ..wire.settings import arguments_of, read
from ..wiring.arguments import check
from ..wiring.definitions import TYPES
from ..wiring.name_patterns import check_pattern
from ..wiring.node_patterns import EXCHANGE, QUEUE, NodePattern
from ..wiring.settings import ExchangeSettings
from .command_arguments import AddPatternArguments, DeclareQueueArguments
from .queue_declaration import Owner, declaration

OLDER_PATTERN = (
    "patterns of queues and exchanges cannot be there yet: a member of the cluster is of an older version, and would "
    "make none: upgrade all members first"
)
EXAMPLE = "of a pattern"
_NOBODY = Owner("", "", 0, 0)


def pattern_of(a: AddPatternArguments, stored: bool, queue_bytes: int) -> PutPattern:
    """The event that a pattern is ordered as. Args: as of `declaration`.

    Raises:
        PeerError: `invalid`, it is no pattern, or nothing can be declared so; `no-store`, its queues are to be durable,
            and cannot.
    """
    check_pattern(a.pattern)
    if a.makes == EXCHANGE:
        if a.type not in TYPES:
            raise PeerError(INVALID, f"an exchange's type is one of {', '.join(TYPES)}, not {a.type!r}")
        arguments, alternate = check("exchange", a.arguments), a.alternate
    else:
        arguments, alternate = _of_queues(a, stored, queue_bytes)
    return PutPattern(a.name, a.pattern, a.makes, arguments, a.durable, alternate, a.type, a.priority)


def _of_queues(a: AddPatternArguments, stored: bool, queue_bytes: int) -> tuple[dict[str, Any], str]:
    if a.makes == QUEUE and a.type:
        raise PeerError(INVALID, f"a queue has no type, and this has {a.type!r}: leave it out")
    asked = DeclareQueueArguments(EXAMPLE, a.durable, a.alternate, a.arguments)
    declaration(asked, EXAMPLE, _NOBODY, stored, queue_bytes)
    event, _ = declaration(asked, EXAMPLE, _NOBODY, stored, 0)  # the cluster's limit is given when one is declared
    if read(QueueSettings, event.arguments).exclusive:
        text = "queues of a pattern are there for whoever attaches, and cannot be one client's alone"
        raise PeerError(INVALID, f"{text}: leave out exclusive, or the lifetime delete-on-close")
    return event.arguments, event.alternate


def pattern_described(pattern: NodePattern) -> dict[str, Any]:
    """A pattern as clients are told it: as it was given, and its `settings` by keyword."""
    if pattern.makes == QUEUE:
        settings = definition(read(QueueSettings, pattern.arguments))
    else:
        found, plainly = read(ExchangeSettings, pattern.arguments), ExchangeSettings()
        fields = (field for field in arguments_of(ExchangeSettings) if getattr(found, field) != getattr(plainly, field))
        settings = {"type": pattern.type} | {field: getattr(found, field) for field in fields}
    more = {"durable": pattern.durable, "alternate": pattern.alternate}
    return asdict(pattern) | {"settings": settings | {name: value for name, value in more.items() if value}}
