"""The arguments that a queue, an exchange or a binding may have.

Names that begin with ``qpid.``, ``x-`` or ``manta.`` belong to brokers: one without a meaning here is refused, with
the nearest name that has one, since its user relies on it. All other names are the user's own, and kept.

The broker that a client asks checks names and values, before the event is ordered. Applying an event checks no names,
and only the value of x-match, which every version knows: what a later version knows must not divide members of
different versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any

import msgspec

from ..errors import INVALID, PeerError
from ..queue.settings import QueueSettings, declared
from ..wire.settings import Argument, names_of, parse, plain


class ExchangeSettings(msgspec.Struct, frozen=True):
    pass


class BindingSettings(msgspec.Struct, frozen=True):
    """Attributes:
    x_match: of a headers exchange, "all" or "any", which the wiring checks when it applies the binding; exchanges of
        other types pass it over.
    """

    x_match: Annotated[Any, Argument("x-match", "all or any")] = "all"


OURS = ("qpid.", "x-", "manta.")
SHAPES: dict[str, type[msgspec.Struct]] = {
    "queue": QueueSettings,
    "exchange": ExchangeSettings,
    "binding": BindingSettings,
}
LATER: dict[str, frozenset[str]] = {
    "queue": frozenset({
        "qpid.auto_delete_timeout",
        "qpid.replicate", "qpid.alert_count", "qpid.alert_size", "qpid.last_value_queue", "qpid.lifetime-policy",
        "qpid.browse-only",
        "qpid.filter", "qpid.queue_msg_sequence", "qpid.group_timestamp", "qpid.paging", "qpid.file_count",
        "qpid.file_size", "x-message-ttl",
        "x-expires", "x-single-active-consumer", "x-dead-letter-exchange",
        "x-dead-letter-routing-key", "x-delivery-limit", "x-queue-type",
    }),
    "exchange": frozenset({"qpid.msg_sequence", "qpid.ive", "qpid.exclusive-binding", "qpid.replicate",
                           "x-delayed-type"}),
    "binding": frozenset({"qpid.exclusive-binding"}),
}  # fmt: skip
"""Names that Qpid or RabbitMQ know and this version does not: their refusal says so."""


def check(what: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Check the arguments of a `what`: "queue", "exchange" or "binding". Returns them as they are ordered: a queue's in
    the one spelling.

    Raises:
        PeerError: `invalid`, a name begins as brokers' names do, and has no meaning here; a name that has one has a
            value that it does not take; or two contradict each other.
    """
    _check_names(what, arguments)
    if SHAPES[what] is QueueSettings:
        return plain(declared(arguments), arguments)
    parse(SHAPES[what], what, arguments)
    return arguments


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
