"""What a cluster would say to declarations, without asking it: the rules of its wiring, on a wiring of our own.

They are this version's rules. A cluster of another one may know more or less, and has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from ...protocol.broker.command_arguments import AddPatternArguments, AddPolicyArguments
from ...protocol.broker.pattern_commands import pattern_of
from ...protocol.broker.policy_commands import policy_of
from ...protocol.errors import NO_STORE, NOT_ALLOWED, PeerError
from ...protocol.wire.events import DeclareExchange, DeclareQueue
from ...protocol.wire.pattern_events import PutPattern
from ...protocol.wire.policy_events import PutPolicy
from ...protocol.wire.redirect_events import Redirect
from ...protocol.wiring.arguments import check
from ...protocol.wiring.exchanges import RELAYS
from ...protocol.wiring.relays import relay_of
from ...protocol.wiring.wiring import Wiring
from .declarations import Declaration, what_of

HOW = ": start it with --data DIR, or import with --transient"


class Rehearsal:
    """
    Args:
        there: what the cluster has, in an order that works.
        stored: it has a store.
    """

    def __init__(self, there: Iterable[Declaration], stored: bool) -> None:
        self._stored = stored
        self._wiring = Wiring()
        self._index = 0
        for one in there:
            self._apply(one)

    def refusal(self, one: Declaration) -> str:
        """Why the cluster would refuse it. "": it would not, and what is asked next finds it there."""
        try:
            if isinstance(one, PutPolicy):
                given = one.arguments, one.priority, one.operator, one.alternate
                return self._apply(policy_of(AddPolicyArguments(one.name, one.pattern, *given)))
            if isinstance(one, PutPattern):
                said = one.durable, one.alternate, one.type, one.priority
                asked = AddPatternArguments(one.name, one.pattern, one.makes, one.arguments, *said)
                return self._apply(pattern_of(asked, self._stored, 0))
            if isinstance(one, Redirect):
                return self._apply(one)
            arguments = check(what_of(one), one.arguments)
            if isinstance(one, DeclareQueue):
                self._check(one)
            return self._apply(one, arguments)
        except PeerError as problem:
            return problem.text

    def _check(self, one: DeclareQueue) -> None:
        if one.name.startswith(RELAYS):
            raise PeerError(NOT_ALLOWED, f"names that begin with {RELAYS} are exchanges' own: rename {one.name!r}")
        if one.durable and not self._stored:
            raise PeerError(NO_STORE, f"queue {one.name!r} cannot be durable: this cluster has no store{HOW}")

    def _apply(self, one: Declaration, arguments: dict[str, Any] | None = None) -> str:
        event = one if arguments is None or isinstance(one, Redirect) else replace(one, arguments=arguments)
        relay = relay_of(event, False) if isinstance(event, DeclareExchange) else None
        for each in (relay, event):
            if each is not None:
                self._index += 1
                outcome = self._wiring.apply(each, self._index)
                if outcome.code:
                    return outcome.text
        return ""
