"""A queue, an exchange and a binding as they are declared, and when a declaration may be taken as it is.

Names have bounds, arguments are plain values. Declaring again agrees with what is there if all that it names is equal.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import msgspec

from ..errors import EXISTS, INVALID, PeerError
from ..limits import DEFAULT

TYPES = ("direct", "topic", "fanout", "headers")


class QueueDefinition(msgspec.Struct, frozen=True, array_like=True):
    """A queue as it is now.

    Attributes:
        client: id of the client that has it for itself, "" for none.
        own, own_alternate: what it was declared with, where policies have made other arguments of that; else None, "".
        changed: index of the event that changed it last, 0 for none since it was declared.
        first, first_alternate: what it had before the first such event; else None, "".
        judged: it has had a say in what becomes of transfers before that event: of what it has refused, repeats are
            answered as the first time.
        since, brokers: index of the event by which it got that say, and who were members then; 0 and none where it has
            had it since it was declared, or never.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    durable: bool = False
    alternate: str = ""
    client: str = ""
    own: dict[str, Any] | None = None
    own_alternate: str = ""
    changed: int = 0
    first: dict[str, Any] | None = None
    first_alternate: str = ""
    judged: bool = False
    since: int = 0
    brokers: list[str] = []

    @property
    def as_declared(self) -> QueueDefinition:
        """Without what policies say."""
        if self.own is None:
            return self
        return QueueDefinition(self.id, self.name, self.own, self.durable, self.own_alternate, self.client)

    @property
    def at_first(self) -> tuple[dict[str, Any], str]:
        """The arguments and the alternate with which its stream begins."""
        return (self.arguments, self.alternate) if self.first is None else (self.first, self.first_alternate)


class ExchangeDefinition(msgspec.Struct, frozen=True, array_like=True):
    name: str
    type: str
    arguments: dict[str, Any]
    durable: bool = False
    alternate: str = ""


class Binding(msgspec.Struct, frozen=True, array_like=True):
    exchange: str
    queue: str
    key: str
    arguments: dict[str, Any]


STANDARD = (
    ExchangeDefinition("", "direct", {}, True),
    ExchangeDefinition("amq.direct", "direct", {}, True),
    ExchangeDefinition("amq.fanout", "fanout", {}, True),
    ExchangeDefinition("amq.headers", "headers", {}, True),
    ExchangeDefinition("amq.match", "headers", {}, True),
    ExchangeDefinition("amq.topic", "topic", {}, True),
)

canonical = msgspec.msgpack.Encoder(order="deterministic").encode
"""Equal values have equal bytes, whatever the order of their maps; 1 and True differ."""


def standard(name: str) -> bool:
    """Whether an exchange of this name is the standard's own."""
    return name == "" or name.startswith("amq.")


def check_arguments(value: Any) -> None:
    """Plain values only: others cannot be compared, ordered and encoded again, and must not enter the wiring."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise PeerError(INVALID, f"the names of arguments are text, not {name!r}")
            check_arguments(inner)
    elif isinstance(value, list):
        for inner in value:
            check_arguments(inner)
    elif value is not None and not isinstance(value, str | bytes | int | float):
        text = f"arguments are text, bytes, numbers, booleans, null, lists and maps of them, not {type(value).__name__}"
        raise PeerError(INVALID, text)


def check_name(what: str, name: str) -> None:
    if not name or len(name) > DEFAULT.name_chars:
        raise PeerError(INVALID, f"a {what}'s name has 1 to {DEFAULT.name_chars} characters, not {len(name)}")
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in name):
        raise PeerError(INVALID, f"a {what}'s name has no control characters: {name!r}")


BY_DEFAULT = "manta.by_default"
"""Argument in which a broker notes the names of those that nobody has given: they are the cluster's."""
BY_POLICY = "manta.by_policy"
"""Argument in which the wiring notes which policies a queue has ("policy", "operator_policy"), what its client gave in
place of what it got ("given"), and whether its alternate exchange is a policy's ("alternate")."""


def by_default(arguments: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The arguments with those that the cluster adds."""
    return arguments | more | {BY_DEFAULT: sorted({*arguments.get(BY_DEFAULT, ()), *more})}


def noted(own: dict[str, Any], whole: dict[str, Any], notes: dict[str, Any]) -> dict[str, Any]:
    """The arguments `whole` of a queue, of which its client has given `own`, with notes on what policies have made of
    them."""
    others = {name for name in whole if name not in own and name not in (BY_DEFAULT, BY_POLICY)}
    before = whole.get(BY_POLICY, {})
    replaced = {name: own[name] for name in own if canonical(own[name]) != canonical(whole.get(name))}
    note = before | notes | ({"given": replaced} if replaced else {})
    return whole | {BY_DEFAULT: sorted(others), BY_POLICY: note}


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that its client has given: they alone must agree when a queue is declared again, since a cluster
    may go on with other defaults than it had."""
    if BY_DEFAULT not in arguments:
        return arguments
    besides = (BY_DEFAULT, BY_POLICY, *arguments[BY_DEFAULT])
    replaced = arguments[BY_POLICY].get("given", {}) if BY_POLICY in arguments else {}
    return {name: value for name, value in arguments.items() if name not in besides} | replaced


def check_same(
    what: str,
    known: QueueDefinition | ExchangeDefinition,
    wanted: QueueDefinition | ExchangeDefinition,
    fields: tuple[str, ...],
) -> None:
    if isinstance(known, QueueDefinition):
        known = known.as_declared
    if not wanted.alternate:  # "" is "not named": a client that only makes sure of a queue need not know it
        fields = tuple(name for name in fields if name != "alternate")
    differ = [name for name in fields if _plain(known, name) != _plain(wanted, name)]
    if differ:
        had = ", ".join(f"{name}={getattr(known, name)!r}" for name in differ)
        text = f"{what} {known.name!r} exists with {had}: declare it so, or delete it first"
        raise PeerError(EXISTS, text)


def _plain(definition: QueueDefinition | ExchangeDefinition, name: str) -> bytes:
    return canonical(given(definition.arguments) if name == "arguments" else getattr(definition, name))
