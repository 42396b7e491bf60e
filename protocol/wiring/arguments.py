"""The arguments that a queue, an exchange or a binding may have.

Names that begin with ``qpid.``, ``x-`` or ``manta.`` belong to brokers: one without a meaning here is refused, with
the nearest name that has one, since its user relies on it. All other names are the user's own, and kept.

The broker that a client asks checks names and values, before the event is ordered. Applying an event checks no names,
and only the value of x-match: what a later version knows must not divide members of different versions, so while one
is in the cluster that would apply a value otherwise, no broker orders it (`queue_known_from`, `binding_known_from`).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import msgspec

from ..errors import INVALID, PeerError
from ..limits import DEFAULT
from ..queue.declared import declared
from ..queue.settings import DEAD_LETTER, SELF_DESTRUCT, QueueSettings
from ..wire.framing import check_depth
from ..wire.settings import names_of, parse, plain, read
from ..wire.version import (
    KNOWS_AUTO_DELETE,
    KNOWS_DEAD_LETTERS,
    KNOWS_DEDUPLICATION,
    KNOWS_DELAYS,
    KNOWS_EXCHANGES,
    KNOWS_LIFETIMES,
    KNOWS_LIMITS,
    KNOWS_LINES,
    KNOWS_SELF_DESTRUCT,
    KNOWS_SEQUENCES,
    KNOWS_SHARES,
    KNOWS_TIMES,
    KNOWS_VERDICTS,
    KNOWS_WITH_X,
)
from .definitions import by_default
from .exchanges import WITH_X
from .settings import BindingSettings, ExchangeSettings

OURS = ("qpid.", "x-", "manta.")
DEPTH = DEFAULT.depth - 5
"""How deep arguments may nest, themselves included: in a frame that lists all there is, four more arrays and maps are
around them, and the values in the deepest one count as well."""
SHAPES: dict[str, type[msgspec.Struct]] = {
    "queue": QueueSettings,
    "exchange": ExchangeSettings,
    "binding": BindingSettings,
}
LATER: dict[str, frozenset[str]] = {
    "queue": frozenset({
        "qpid.replicate", "qpid.last_value_queue",
        "qpid.browse-only",
        "qpid.filter", "qpid.group_timestamp", "qpid.paging", "qpid.file_count",
        "qpid.file_size",
        "x-queue-type",
    }),
    "exchange": frozenset({"qpid.replicate", "x-delayed-type"}),
    "binding": frozenset(),
}  # fmt: skip
"""Names that Qpid or RabbitMQ know and this version does not: their refusal says so."""


OF_QUEUES = names_of(QueueSettings)
"""Arguments that change how a queue behaves."""
EXCHANGES_OWN = frozenset({"manta.exchange", "manta.exchange_sequence", "manta.exchange_initial"})


def check(what: str, arguments: dict[str, Any], queue_bytes: int = 0) -> dict[str, Any]:
    """Check the arguments of a `what`: "queue", "exchange" or "binding". Returns them as they are ordered: a queue's
    and an exchange's in the one spelling, and a queue with a limit of `queue_bytes` where it names none (0: then it has
    none).

    Raises:
        PeerError: `invalid`, a name begins as brokers' names do, and has no meaning here; a name that has one has a
            value that it does not take; two contradict each other; or they nest too deep to be told to anybody.
    """
    try:
        check_depth(arguments, DEPTH + 1)
    except PeerError:
        text = f"arguments of a {what} nest at most {DEPTH} arrays and maps deep, themselves included: flatten them"
        raise PeerError(INVALID, text) from None
    # Of a binding that matches headers that begin with x-, they are headers of the user's.
    theirs = what == "binding" and arguments.get("x-match") in WITH_X
    _check_names(what, [name for name in arguments if not (theirs and name.startswith("x-"))])
    if what == "queue" and (own := EXCHANGES_OWN.intersection(arguments)):
        text = f"{min(own)!r} is of queues that exchanges have for themselves"
        raise PeerError(INVALID, f"{text}: declare an exchange with qpid.msg_sequence or qpid.ive")
    if SHAPES[what] is QueueSettings:
        own = parse(QueueSettings, what, arguments)
        if queue_bytes and not own.limited:
            return _with_default(plain(own, arguments), queue_bytes)
        return plain(declared(arguments), arguments)
    settings = parse(SHAPES[what], what, arguments)
    if isinstance(settings, ExchangeSettings) and settings.relays and settings.auto_delete:
        text = "an exchange that numbers or keeps its messages has a queue of its own, and stays"
        raise PeerError(INVALID, f"{text}: leave out manta.auto_delete, or qpid.msg_sequence and qpid.ive")
    return plain(settings, arguments) if what == "exchange" else arguments


def _with_default(arguments: dict[str, Any], queue_bytes: int) -> dict[str, Any]:
    """The limit is ordered with the declaration, so it is the same at every broker, whatever a later start chooses."""
    whole = arguments | {"qpid.max_size": queue_bytes}
    try:
        whole = plain(declared(whole), whole)
    except PeerError as error:
        why = f"a queue that names no limit has {queue_bytes:,} bytes in this cluster (--queue-limit)"
        raise PeerError(error.code, error.text if _wrong(arguments) == error.text else f"{error.text}; {why}") from None
    return by_default(arguments, {name: value for name, value in whole.items() if name not in arguments})


def _wrong(arguments: dict[str, Any]) -> str:
    try:
        declared(arguments)
    except PeerError as error:
        return error.text
    return ""


def _check_names(what: str, names: Iterable[str]) -> None:
    known = names_of(SHAPES[what])
    for name in names:
        if not name.startswith(OURS) or name in known:
            continue
        if name in LATER[what]:
            hint = "other brokers know it, this version does not keep it: leave it out"
        else:
            near = get_close_matches(name, known | LATER[what], 1)
            meant = f"did you mean {near[0]!r}? " if near and near[0] in known else ""
            meant = meant or (f"{near[0]!r} of other brokers is not kept by this version either; " if near else "")
            hint = f"{meant}names of your own do not begin with {', '.join(OURS[:-1])} or {OURS[-1]}"
        raise PeerError(INVALID, f"there is no {what} argument {name!r}: {hint}")


def queue_known_from(arguments: dict[str, Any]) -> int:
    """The minor version from which a member keeps to a queue's arguments as this one does; 0: all do."""
    if not arguments.keys() & OF_QUEUES:
        return 0
    settings = read(QueueSettings, arguments)
    if settings.dedupes:
        return KNOWS_DEDUPLICATION
    if settings.goes_empty:
        return KNOWS_LIFETIMES
    if settings.message_ttl_ms >= 0 or settings.expires_ms or settings.consumer_timeout_ms:
        return KNOWS_TIMES
    if settings.delays_retries:
        return KNOWS_DELAYS
    if settings.auto_delete or settings.exclusive:
        return KNOWS_AUTO_DELETE
    if settings.dead_letters or settings.delivery_limit or settings.dead_letter_key or settings.overflow == DEAD_LETTER:
        return KNOWS_DEAD_LETTERS
    if settings.shares:
        return KNOWS_SHARES
    if settings.sequence_key:
        return KNOWS_SEQUENCES
    if settings.single_active:
        return KNOWS_LINES
    if settings.overflow == SELF_DESTRUCT:
        return KNOWS_SELF_DESTRUCT
    return KNOWS_VERDICTS if settings.judges else KNOWS_LIMITS


def binding_known_from(arguments: dict[str, Any]) -> int:
    """The minor version from which a member applies a binding with these arguments as this one does; 0: all do."""
    if read(BindingSettings, arguments).exclusive:
        return KNOWS_EXCHANGES
    return KNOWS_WITH_X if arguments.get("x-match") in WITH_X else 0
