"""Policies: what queues are given by the pattern of their names, as a pure function of the cluster stream.

A queue gets what its policies say by the event that declares it, and then by each event by which a policy comes,
changes or goes: so it is the same at every broker. Of the policies whose pattern fits its name, that of the highest
priority is the queue's; what the declaration itself says goes before it. Of the operator's policies, chosen likewise,
a number is the most that the queue gets, whoever says more.

What a policy has added stands among the queue's arguments, noted there as given by nobody (`definitions.py`). What the
queue was declared with is kept beside that, to be compared when it is declared again, and for when the policy goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from ..errors import INVALID, NOT_FOUND, PeerError
from ..queue.declared import declared
from ..queue.settings import ALL, DEAD_LETTER, QueueSettings
from ..wire.policy_events import DropPolicy, PutPolicy
from ..wire.settings import arguments_of, plain, read
from .definitions import QueueDefinition, canonical, check_arguments, check_name, given, noted
from .name_patterns import best, check_pattern, matches

MOST_POLICIES = 64
"""Of either kind: each queue that is declared is compared with all."""
FIELDS = (
    "max_count", "max_size", "overflow", "flow_stop_count", "flow_resume_count", "flow_stop_size", "flow_resume_size",
    "message_ttl_ms", "expires_ms", "delivery_limit", "retry_delay_s", "retry_delay_min_ms", "retry_delay_max_ms",
    "retry_type", "dead_letters", "dead_letter_key",
)  # fmt: skip
CAPS = ("max_count", "max_size", "message_ttl_ms", "expires_ms", "delivery_limit")
"""What an operator's policy may bound."""
DEFAULT_SIZE = "qpid.max_size"
THRESHOLDS = ("qpid.flow_stop_count", "qpid.flow_resume_count", "qpid.flow_stop_size", "qpid.flow_resume_size")


def argument_of(field: str) -> str:
    return arguments_of(QueueSettings)[field][0].name


class QueuePolicy(msgspec.Struct, frozen=True, array_like=True):
    """One policy: see `PutPolicy`."""

    name: str
    pattern: str
    arguments: dict[str, Any] = {}
    priority: int = 0
    operator: bool = False
    alternate: str = ""


class QueuePolicies:
    """All policies of a cluster."""

    def __init__(self) -> None:
        self._all: dict[tuple[bool, str], QueuePolicy] = {}

    def order(self, event: PutPolicy | DropPolicy) -> bool:
        """Apply an event; whether it changed anything.

        Raises:
            PeerError: `invalid`, it is no pattern, or there are too many; `not-found`, there is no policy to drop.
        """
        place = (event.operator, event.name)
        before = self._all.get(place)
        if isinstance(event, DropPolicy):
            if before is None:
                kind = "operator's policy" if event.operator else "policy"
                raise PeerError(NOT_FOUND, f"there is no {kind} {event.name!r}: `mantamq policy list` has all")
            del self._all[place]
            return True
        check_name("policy", event.name)
        check_pattern(event.pattern)
        check_arguments(event.arguments)
        if before is None and len(self.all(event.operator)) >= MOST_POLICIES:
            raise PeerError(INVALID, f"a cluster has at most {MOST_POLICIES} policies of a kind: delete one first")
        policy = self._all[place] = QueuePolicy(
            event.name, event.pattern, event.arguments, event.priority, event.operator, event.alternate
        )
        return policy != before

    def all(self, operator: bool) -> list[QueuePolicy]:
        return [self._all[place] for place in sorted(self._all) if place[0] is operator]

    def of(self, name: str, operator: bool = False) -> QueuePolicy | None:
        """The policy of a queue with that name: of those that fit, that of the highest priority; of equals the one
        whose own name comes first."""
        return best(self.all(operator), name)

    def onto(self, queue: QueueDefinition, may_be_alternate: Callable[[str], bool]) -> QueueDefinition:
        """A queue as it is declared, with what its policies say.

        Args:
            may_be_alternate: whether an exchange is there, and may be one.
        """
        policy, operator, has = self.of(queue.name), self.of(queue.name, operator=True), queue
        if policy is not None:
            has = _given(has, policy, may_be_alternate)
        if operator is not None:
            has = _bounded(has, operator)
        return has if has is queue else replace(has, own=queue.arguments, own_alternate=queue.alternate)

    def changed(
        self,
        event: PutPolicy | DropPolicy,
        index: int,
        queues: Iterable[QueueDefinition],
        may_be_alternate: Callable[[str], bool],
        brokers: Iterable[str] = (),
    ) -> list[QueueDefinition] | None:
        """Apply an event, as `order`.

        Args:
            index: of the event.
            queues: all that policies may be of, as they are.
            brokers: the members of the cluster at that event.

        Returns:
            Those of them that are otherwise now, as they are now; None: the event changes nothing at all.
        """
        before = self._all.get((event.operator, event.name))
        if not self.order(event):
            return None
        patterns = {one.pattern for one in (before, event) if isinstance(one, QueuePolicy | PutPolicy)}
        concerned = [one for one in queues if any(matches(pattern, one.name) for pattern in patterns)]
        now = [(one, self.onto(one.as_declared, may_be_alternate)) for one in concerned]
        members = sorted(brokers)
        return [_follows(was, has, index, members) for was, has in now if not _same(was, has)]

    def snapshot(self) -> list[QueuePolicy]:
        return [*self.all(False), *self.all(True)]

    @classmethod
    def restore(cls, policies: list[QueuePolicy]) -> QueuePolicies:
        found = cls()
        found._all = {(one.operator, one.name): one for one in policies}
        return found


def _same(one: QueueDefinition, other: QueueDefinition) -> bool:
    return canonical([one.arguments, one.alternate]) == canonical([other.arguments, other.alternate])


def _follows(was: QueueDefinition, has: QueueDefinition, index: int, brokers: list[str]) -> QueueDefinition:
    """What a queue has now by the event at `index`, in place of what it was."""
    before, now = _settings(was), _settings(has)
    kept = {name: getattr(was, name) for name in ("changed", "first", "first_alternate", "judged", "since", "brokers")}
    if before == now:  # another policy says the same
        return replace(has, **kept)
    first, first_alternate = was.at_first
    judged = was.judged or before.judges
    if now.judges and not judged:
        kept |= {"since": index, "brokers": brokers}
    kept |= {"changed": index, "first": first, "first_alternate": first_alternate, "judged": judged}
    return replace(has, **kept)


def _settings(queue: QueueDefinition) -> QueueSettings:
    return read(QueueSettings, queue.arguments, alternate=queue.alternate)


def _given(queue: QueueDefinition, policy: QueuePolicy, may_be_alternate: Callable[[str], bool]) -> QueueDefinition:
    """A queue with what a policy says and its declaration does not. One that contradicts the declaration, or itself,
    says nothing."""
    own = given(queue.arguments)
    alternate = queue.alternate
    if not alternate and policy.alternate and may_be_alternate(policy.alternate):
        alternate = policy.alternate
    wanted = queue.arguments | policy.arguments | own
    if alternate and not queue.alternate:
        wanted.setdefault(argument_of("dead_letters"), ALL)
    if DEFAULT_SIZE not in own and DEFAULT_SIZE not in policy.arguments and _limited(policy.arguments | own):
        wanted.pop(DEFAULT_SIZE, None)  # the cluster's, of queues that name no limit
    if not _limited(wanted) and argument_of("overflow") not in own:
        wanted.pop(argument_of("overflow"), None)
    arguments = _whole(wanted)
    if arguments is None or (read(QueueSettings, arguments).overflow == DEAD_LETTER and not alternate):
        return queue
    notes = {"policy": policy.name} | ({"alternate": True} if alternate != queue.alternate else {})
    return replace(queue, arguments=noted(own, arguments, notes), alternate=alternate)


def _bounded(queue: QueueDefinition, operator: QueuePolicy) -> QueueDefinition:
    """A queue with an operator's bounds."""
    own, wanted = given(queue.arguments), dict(queue.arguments)
    for field in CAPS:
        name = argument_of(field)
        most = getattr(read(QueueSettings, operator.arguments), field)
        if most != (none := getattr(QueueSettings(), field)):
            has = getattr(read(QueueSettings, wanted), field)
            wanted[name] = most if has == none else min(most, has)
    arguments = _whole(wanted)
    if arguments is None:  # a threshold of flow control is above that: the bound goes before it
        arguments = _whole({name: value for name, value in wanted.items() if name not in THRESHOLDS})
    if arguments is None:
        return queue
    return replace(queue, arguments=noted(own, arguments, {"operator_policy": operator.name}))


def _limited(arguments: dict[str, Any]) -> bool:
    return read(QueueSettings, arguments).limited


def _whole(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Arguments in the one spelling, with what follows from them; None: they contradict each other."""
    try:
        return plain(declared(arguments), arguments)
    except PeerError:
        return None
