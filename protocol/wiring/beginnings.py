"""How exchanges begin: whether one may be declared as it is wanted, beside those that are there."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import INVALID, NOT_ALLOWED, PeerError
from .definitions import TYPES, ExchangeDefinition, QueueDefinition, check_name
from .endings import check_alternate
from .exchanges import Exchange, check_exclusive
from .relays import check_no_ring, check_relay


def begun(
    wanted: ExchangeDefinition, index: int, exchanges: Mapping[str, Exchange], queues: Mapping[str, QueueDefinition]
) -> Exchange:
    """The exchange that the event at `index` of the cluster stream declares, where none has its name.

    Raises:
        PeerError: its name, its type or what is around it forbids that, with the rule.
    """
    name = wanted.name
    check_name("exchange", name)
    if name.startswith("amq."):
        raise PeerError(NOT_ALLOWED, f"names that begin with amq. are the standard's own: rename {name!r}")
    if wanted.type not in TYPES:
        raise PeerError(INVALID, f"an exchange's type is one of {', '.join(TYPES)}, not {wanted.type!r}")
    check_alternate(exchanges, wanted.alternate)
    new = Exchange(wanted, since=index)
    if new.settings.exclusive:
        check_exclusive(wanted.type)
    check_relay(new, queues)
    if wanted.alternate:
        check_no_ring({**exchanges, name: new}, name, wanted.alternate)
    return new
