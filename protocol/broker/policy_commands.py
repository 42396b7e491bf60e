"""A client's policy, as the broker that is asked has it ordered: in the one spelling, and nothing in it that a policy
cannot set."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict, replace

from ..errors import INVALID, PeerError
from ..queue.declared import declared
from ..queue.described import by_keyword
from ..queue.settings import DEAD_LETTER, RING, QueueSettings
from ..wire.policy_events import PutPolicy
from ..wire.settings import arguments_of, plain, read
from ..wiring.arguments import check
from ..wiring.name_patterns import check_pattern
from ..wiring.queue_policies import CAPS, FIELDS, QueuePolicy, argument_of
from .command_arguments import AddPolicyArguments
from .queue_declaration import alternate_in

OLDER_POLICY = (
    "policies cannot be there yet: a member of the cluster is of an older version, and would declare queues without "
    "what they say: upgrade all members first"
)


def policy_of(a: AddPolicyArguments) -> PutPolicy:
    """The event that a policy is ordered as.

    Raises:
        PeerError: `invalid`, it is no pattern; there is nothing that it sets, or something that none can set, or it has
            a value that it does not take.
    """
    check_pattern(a.pattern)
    arguments, alternate = alternate_in(a.arguments, a.alternate)
    fields, what = (CAPS, "an operator's policy bounds") if a.operator else (FIELDS, "a policy sets")
    may = {name for field in fields for name in arguments_of(QueueSettings)[field][0].names}
    words = ", ".join(by_keyword(dict.fromkeys(fields, 0)))
    if strange := [name for name in arguments if name not in may]:
        raise PeerError(INVALID, f"{what} {words}, not {strange[0]!r}: leave it out")
    if a.operator and alternate:
        raise PeerError(INVALID, f"{what} {words}, not the alternate: leave it out")
    if not arguments and not alternate:
        raise PeerError(INVALID, f"{what} at least one of {words}: give one")
    check("queue", arguments)
    settings = declared(arguments)
    if alternate != a.alternate and settings.overflow == RING:  # as in declarations by RabbitMQ's words
        settings = replace(settings, overflow=DEAD_LETTER)
    spelled = plain(settings, {})
    if a.operator:
        spelled.pop(argument_of("overflow"), None)  # what happens there is not its matter
    return PutPolicy(a.name, a.pattern, spelled, a.priority, a.operator, alternate)


def described(policy: QueuePolicy) -> dict[str, Any]:
    """A policy as clients are told it: as it was given, and its `settings` by keyword."""
    settings, plainly = read(QueueSettings, policy.arguments), QueueSettings()
    found = {field: value for field in FIELDS if (value := getattr(settings, field)) != getattr(plainly, field)}
    found = by_keyword(found)
    return asdict(policy) | {"settings": found | ({"alternate": policy.alternate} if policy.alternate else {})}
