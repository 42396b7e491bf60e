"""What an import finds in the cluster already: the same, something else of that name, or nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...protocol.errors import PeerError
from ...protocol.wire.events import Bind, DeclareExchange, DeclareQueue
from ...protocol.wire.pattern_events import PutPattern
from ...protocol.wire.policy_events import PutPolicy
from ...protocol.wire.redirect_events import Redirect
from ...protocol.wire.settings import parse, plain, read
from ...protocol.wiring.arguments import SHAPES, check
from ...protocol.wiring.definitions import STANDARD, canonical, standard
from ...protocol.wiring.settings import BindingSettings, ExchangeSettings
from .declarations import Declaration, what_of

_Named = DeclareExchange | DeclareQueue | PutPolicy | PutPattern

NEW, UNCHANGED, DIFFERS, REFUSED = "new", "unchanged", "differs", "refused"

_STANDARD = [DeclareExchange(one.name, one.type, one.arguments, one.durable) for one in STANDARD]


class Finding(NamedTuple):
    """What becomes of a declaration: `NEW`, `UNCHANGED` and so on; and why."""

    outcome: str
    why: str = ""


class Comparison:
    """What is declared in a cluster, as far as an import knows.

    Unlike a broker that is asked to declare again, it takes an alternate that is not named for none: a file names all.
    """

    def __init__(self, there: Iterable[Declaration]) -> None:
        self._named: dict[tuple[str, str], _Named] = {}
        self._bound: dict[tuple[str, str], dict[tuple[str, str, bytes], Bind]] = defaultdict(dict)
        self._redirects: dict[str, str] = {}
        for one in (*_STANDARD, *there):
            self.note(one)

    def note(self, one: Declaration) -> None:
        """It is there now."""
        if isinstance(one, Bind):
            self._bound[one.exchange, one.key][_place(one)] = one
        elif isinstance(one, Redirect):
            self._redirects[one.source] = one.target
        else:
            self._named[what_of(one), one.name] = one

    def finding(self, one: Declaration) -> Finding:
        """Whether it is there, is new, or differs from what is there."""
        if isinstance(one, Bind):
            return self._of_binding(one)
        if isinstance(one, Redirect):
            return self._of_redirect(one)
        there = self._named.get((what_of(one), one.name))
        if there is None:
            return Finding(NEW)
        differences = list(_differences(one, there))
        return Finding(DIFFERS, f"there it has {', '.join(differences)}") if differences else Finding(UNCHANGED)

    def _of_binding(self, one: Bind) -> Finding:
        there = self._bound[one.exchange, one.key]
        if _place(one) in there:
            return Finding(UNCHANGED)
        exchange = self._named.get(("exchange", one.exchange))
        alone = isinstance(exchange, DeclareExchange) and read(ExchangeSettings, exchange.arguments).exclusive
        if there and (alone or read(BindingSettings, one.arguments).exclusive):
            others = ", ".join(sorted(other.to_exchange or other.queue for other in there.values()))
            return Finding(DIFFERS, f"there the key is bound to {others}, whose place it would take")
        return Finding(NEW)

    def _of_redirect(self, one: Redirect) -> Finding:
        there = self._redirects.get(one.source)
        if there is None:
            return Finding(NEW)
        return Finding(UNCHANGED) if there == one.target else Finding(DIFFERS, f"there it is redirected to {there!r}")


def _place(one: Bind) -> tuple[str, str, bytes]:
    return one.to_exchange, one.queue, canonical(one.arguments)


_FIELDS = {
    "queue": ("durable", "alternate"),
    "exchange": ("type", "durable", "alternate"),
    "policy": ("pattern", "priority", "alternate"),
    "pattern": ("pattern", "makes", "type", "priority", "durable", "alternate"),
}


def _differences(wanted: _Named, there: _Named) -> Iterable[str]:
    what = "policy" if isinstance(wanted, PutPolicy) else what_of(wanted)
    fields = _FIELDS[what]
    as_ever = what == "exchange" and standard(wanted.name)  # of such a one the type alone is declared
    for field in fields[:1] if as_ever else fields:
        if (was := getattr(there, field)) != (now := getattr(wanted, field)):
            yield f"{field}={was!r} (not {now!r})"
    if as_ever:
        return
    of = wanted.makes if isinstance(wanted, PutPattern) else "queue" if what == "policy" else what
    was, now = spelled(of, there.arguments), spelled(of, wanted.arguments)
    for name in sorted(was.keys() | now.keys()):
        if name not in was:
            yield f"no {name} (not {now[name]!r:.40})"
        elif name not in now:
            yield f"{name}={was[name]!r:.40} (not without it)"
        elif canonical(was[name]) != canonical(now[name]):
            yield f"{name}={was[name]!r:.40} (not {now[name]!r:.40})"


def spelled(what: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments in the spelling in which a broker orders them, as far as this version knows."""
    try:
        return check(what, arguments)
    except PeerError:  # it is the cluster's to say: it may be newer, or have defaults that make sense of them
        pass
    try:
        return plain(parse(SHAPES[what], what, arguments), arguments)
    except PeerError:
        return arguments
