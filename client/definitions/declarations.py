"""What a definitions file comes to: declarations, as events of the cluster stream, in an order that works.

Exchanges come first, each behind its alternate, then policies, that no queue is there without them, then patterns and
queues, then bindings: exclusive ones before the others of their key, whose place they would take. Redirected queues are
told last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ...protocol.wire.events import Bind, DeclareExchange, DeclareQueue
from ...protocol.wire.pattern_events import PutPattern
from ...protocol.wire.policy_events import PutPolicy
from ...protocol.wire.redirect_events import Redirect
from ...protocol.wire.settings import read
from ...protocol.wiring.node_patterns import QUEUE
from ...protocol.wiring.settings import BindingSettings

Declaration = DeclareExchange | PutPolicy | PutPattern | DeclareQueue | Bind | Redirect


class Step(NamedTuple):
    """Attributes: declaration; remarks: what of it was not taken over, and why."""

    declaration: Declaration
    remarks: tuple[str, ...] = ()


class LeftOut(NamedTuple):
    """Something in a file that is not taken over at all. Attributes: what it is, as `what_of`; name; why."""

    what: str
    name: str
    why: str


class Reading(NamedTuple):
    """A file that was read as a whole.

    Attributes:
        wanted: what to declare, in an order that works.
        left_out: what is not.
        passed_over: what else is in the file and not looked at, as users -> how many.
    """

    wanted: list[Step]
    left_out: list[LeftOut] = []
    passed_over: dict[str, int] = {}

    def transient(self) -> Reading:
        """The same with transient queues, which need no store."""
        return self._replace(wanted=[one._replace(declaration=_transient(one.declaration)) for one in self.wanted])

    @property
    def declarations(self) -> list[Declaration]:
        return [one.declaration for one in self.wanted]


def _transient(one: Declaration) -> Declaration:
    of_queues = isinstance(one, DeclareQueue) or (isinstance(one, PutPattern) and one.makes == QUEUE)
    return replace(one, durable=False) if of_queues else one


def what_of(one: Declaration) -> str:
    """ "exchange", "policy", "operator's policy", "pattern", "queue", "binding" or "redirect"."""
    match one:
        case DeclareExchange():
            return "exchange"
        case DeclareQueue():
            return "queue"
        case PutPolicy():
            return "operator's policy" if one.operator else "policy"
        case PutPattern():
            return "pattern"
        case Bind():
            return "binding"
        case Redirect():
            return "redirect"


def name_of(one: Declaration) -> str:
    if isinstance(one, Redirect):
        return label(one.source, one.target, "")
    return label(one.exchange, one.to_exchange or one.queue, one.key) if isinstance(one, Bind) else one.name


def label(exchange: str, target: str, key: str) -> str:
    """A binding, or a redirected queue, in words."""
    return f"{exchange} -> {target}" + (f" ({key})" if key else "")


def by_alternate(exchanges: Sequence[DeclareExchange]) -> tuple[list[DeclareExchange], list[str]]:
    """Exchanges, each behind its alternate where that is among them, else as they come; and a ring of alternates, in
    which no order works, with its first name once more at its end: [] where there is none."""
    by_name = {one.name: one for one in exchanges}
    done: dict[str, DeclareExchange] = {}
    for first in exchanges:
        chain: dict[str, DeclareExchange] = {}
        one: DeclareExchange | None = first
        while one is not None and one.name not in done:
            if one.name in chain:
                names = list(chain)
                return list(exchanges), [*names[names.index(one.name) :], one.name]
            chain[one.name] = one
            one = by_name.get(one.alternate) if one.alternate else None
        done.update(reversed(chain.items()))
    return list(done.values()), []


def exclusive_first(bindings: Sequence[Step]) -> list[Step]:
    """Bindings in an order in which none takes the place of another one of them that may stay beside it."""
    return sorted(bindings, key=lambda one: not _alone(one.declaration))


def _alone(one: Declaration) -> bool:
    return isinstance(one, Bind) and read(BindingSettings, one.arguments).exclusive
