"""What policies give queues, as the model says it: with Python's own patterns, and by the rule as people are told it."""

from __future__ import annotations

import re
from typing import Any

from mantamq.protocol.wire.policy_events import DropPolicy, PutPolicy

COUNT, SIZE, OVERFLOW, TRIES = "qpid.max_count", "qpid.max_size", "qpid.policy_type", "manta.delivery_limit"
BOUNDS = (COUNT, SIZE, "x-message-ttl", "x-expires", TRIES)
WORDS = (("qpid.lifetime-policy", "delete-if-unused"), ("qpid.lifetime-policy", "delete-on-close"))
"""Other words for what a queue has by a default then."""
DEFAULTS, NOTE = "manta.by_default", "manta.by_policy"


class ModelPolicies:
    """The policies by the log."""

    def __init__(self) -> None:
        self.all: dict[tuple[bool, str], PutPolicy] = {}
        self.given = 0  # queues that have got something

    def apply(self, event: PutPolicy | DropPolicy) -> None:
        if isinstance(event, PutPolicy):
            self.all[event.operator, event.name] = event
        else:
            self.all.pop((event.operator, event.name), None)

    def _of(self, name: str, operator: bool) -> PutPolicy | None:
        fit = [one for (of, _), one in self.all.items() if of is operator and re.search(one.pattern, name)]
        first = sorted(fit, key=lambda one: one.name)
        return max(first, key=lambda one: one.priority) if first else None  # max: the first of equals

    def onto(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a queue has that is declared so."""
        policy, operator = self._of(name, False), self._of(name, True)
        if "manta.exchange" in arguments or (policy is None and operator is None):
            return arguments
        defaults = set(arguments.get(DEFAULTS, ()))
        own = {key: value for key, value in arguments.items() if key != DEFAULTS and key not in defaults}
        has = {key: value for key, value in arguments.items() if key != DEFAULTS}
        notes: dict[str, Any] = {}
        if policy is not None:
            wants = has
            if {COUNT, SIZE} & (own.keys() | policy.arguments.keys()):
                wants = {key: value for key, value in wants.items() if key in own or key not in (SIZE, OVERFLOW)}
            wants = wants | policy.arguments | own
            if {COUNT, SIZE} & wants.keys():
                wants.setdefault(OVERFLOW, "reject")
            if not _contradicts(wants):
                has, notes["policy"] = wants, policy.name
        if operator is not None:
            for key in BOUNDS:
                if key in operator.arguments:
                    has[key] = min(operator.arguments[key], has.get(key, operator.arguments[key]))
            if {COUNT, SIZE} & has.keys():
                has.setdefault(OVERFLOW, "reject")
            if _contradicts(has):
                has = {key: value for key, value in has.items() if not key.startswith("qpid.flow_")}
            notes["operator_policy"] = operator.name
        if not notes:
            return arguments
        has = {key: value for key, value in has.items() if (key, value) not in WORDS}
        if lowered := {key: value for key, value in own.items() if has.get(key) != value}:
            notes["given"] = lowered
        self.given += 1
        return has | {DEFAULTS: sorted(has.keys() - own.keys()), NOTE: notes}


def _contradicts(has: dict[str, Any]) -> bool:
    """Whether its producers would be held back at a level that can never come, or let go on above that; or there are two
    ways to say how long what comes back waits."""
    if {"manta.retry_delay_s", "x-delayed-retry-min"} <= has.keys():
        return True
    for limit, what in ((COUNT, "count"), (SIZE, "size")):
        stop, resume = has.get(f"qpid.flow_stop_{what}"), has.get(f"qpid.flow_resume_{what}")
        if stop is None and limit in has and has.get(OVERFLOW) == "reject":
            stop = has[limit] * 80 // 100
        if stop and limit in has and stop > has[limit]:
            return True
        if resume is not None and (not stop or resume > stop):
            return True
    return False
