"""A client's declaration of a queue, as the broker that is asked has it ordered: in the one spelling, with what the
cluster adds, and not before all members keep to it."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from ..errors import INVALID, NO_STORE, NOT_ALLOWED, PeerError
from ..queue.settings import ALL, DEAD_LETTER, RING, QueueSettings
from ..wire.events import DeclareQueue
from ..wire.settings import read
from ..wire.version import KNOWS_DEAD_LETTERS
from ..wiring.arguments import check, queue_known_from
from ..wiring.definitions import by_default
from ..wiring.exchanges import RELAYS
from .command_arguments import DeclareQueueArguments

NO_STORE_TEXT = (
    "queue {!r} cannot be durable: this cluster has no store, and what is in it ends with it: start the cluster with "
    "--data DIR, or declare the queue without durable"
)
OLDER_TEXT = (
    "queue {!r} cannot have these arguments yet: a member of the cluster is of an older version, and would not keep to "
    "them: upgrade all members first"
)
THEIR_ALTERNATE = "x-dead-letter-exchange"
"""RabbitMQ's name for the alternate exchange of a queue."""
DEAD_LETTERS = "manta.dead_letters"


class Owner(NamedTuple):
    """Who declares: a client, its broker with its incarnation, and which of the client's connections it is on."""

    client: str
    broker: str
    inc: int
    life: int


def declaration(
    a: DeclareQueueArguments, name: str, owner: Owner, stored: bool, queue_bytes: int
) -> tuple[DeclareQueue, int]:
    """The event that a declaration is ordered as, and the minor version from which members keep to it.

    Args:
        name: that the queue is to have.
        stored: the cluster has a store.
        queue_bytes: as in `Limits`.

    Raises:
        PeerError: `invalid`, as `wiring/arguments.py`, or arguments that need an alternate exchange, and there is none;
            `not-allowed`, the name is not a client's to choose; `no-store`, it is to be durable, and cannot.
    """
    if a.name.startswith(RELAYS):
        raise PeerError(NOT_ALLOWED, f"names that begin with {RELAYS} are exchanges' own: rename {a.name!r}")
    given, alternate = alternate_in(a.arguments, a.alternate)
    arguments = check("queue", given, queue_bytes)
    settings = read(QueueSettings, arguments)
    if alternate != a.alternate and settings.overflow == RING:  # by RabbitMQ's words what goes is a dead letter
        arguments = check("queue", arguments | {"qpid.policy_type": DEAD_LETTER}, queue_bytes)
    elif not alternate:
        _check_none(settings)
    if a.durable and not stored:  # a completion that is not true must not be given
        raise PeerError(NO_STORE, NO_STORE_TEXT.format(name))
    event = DeclareQueue(name, arguments, a.durable, alternate)
    if settings.exclusive:
        event = replace(event, **owner._asdict())
    return event, queue_known_from(arguments)


def with_dead_letters(event: DeclareQueue, least: int) -> DeclareQueue:
    """The same where all that can be dead letters are, unless it says which: while a member is older than that, by
    `least`, they are not."""
    if not event.alternate or DEAD_LETTERS in event.arguments or least < KNOWS_DEAD_LETTERS:
        return event
    return replace(event, arguments=by_default(event.arguments, {DEAD_LETTERS: ALL}))


def alternate_in(arguments: dict[str, Any], alternate: str) -> tuple[dict[str, Any], str]:
    """The arguments without RabbitMQ's alternate, and the alternate.

    Raises:
        PeerError: `invalid`, it is none, or two are named.
    """
    if THEIR_ALTERNATE not in arguments:
        return arguments, alternate
    theirs = arguments[THEIR_ALTERNATE]
    if not isinstance(theirs, str) or not theirs:
        raise PeerError(
            INVALID, f"queue argument {THEIR_ALTERNATE!r} is {theirs!r:.60}: name an exchange, not the default"
        )
    if alternate not in ("", theirs):
        raise PeerError(INVALID, f"{THEIR_ALTERNATE!r} is {theirs!r}, and the alternate {alternate!r}: give one")
    return {name: value for name, value in arguments.items() if name != THEIR_ALTERNATE}, theirs


def _check_none(settings: QueueSettings) -> None:
    """Raises PeerError: `invalid`, these are about an alternate exchange, and there is none."""
    given = {
        "overflow dead-letter": settings.overflow == DEAD_LETTER,
        DEAD_LETTERS: settings.dead_letters,
        "a dead_letter_key": settings.dead_letter_key,
    }
    if named := [name for name, value in given.items() if value]:
        raise PeerError(INVALID, f"{named[0]} needs an alternate exchange: name one (alternate), or leave it out")
