"""What each management command of a client takes: names, types, defaults. Anything else is refused by its name."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

LOOKS = frozenset(
    {
        "queue",
        "queues",
        "definitions",
        "exchanges",
        "bindings",
        "policies",
        "patterns",
        "resolve",
        "status",
        "statistics",
    }
)
"""Commands that change nothing."""


class DeclareQueueArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Without a name it gets one that is made of `fresh` (`made_names.py`)."""

    name: str
    durable: bool = False
    alternate: str = ""
    arguments: dict[str, Any] = {}
    passive: bool = False
    fresh: str = ""


class DeleteQueueArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    if_unused: bool = False
    if_empty: bool = False


class DeclareExchangeArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    type: str = "direct"
    durable: bool = False
    alternate: str = ""
    arguments: dict[str, Any] = {}
    passive: bool = False


class NameArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class ResetQueueArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    even_durable: bool = False


class BindArguments(msgspec.Struct, forbid_unknown_fields=True):
    """To a queue, or to the exchange `to_exchange`."""

    exchange: str
    queue: str = ""
    key: str = ""
    arguments: dict[str, Any] = {}
    to_exchange: str = ""


class UnbindArguments(msgspec.Struct, forbid_unknown_fields=True):
    exchange: str
    queue: str = ""
    key: str = ""
    to_exchange: str = ""


class PurgeArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    count: int = 0


class AddPolicyArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    pattern: str
    arguments: dict[str, Any] = {}
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] = 0
    operator: bool = False
    alternate: str = ""


class DeletePolicyArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    operator: bool = False


class AddPatternArguments(msgspec.Struct, forbid_unknown_fields=True):
    """As `PutPattern`."""

    name: str
    pattern: str
    makes: str
    arguments: dict[str, Any] = {}
    durable: bool = False
    alternate: str = ""
    type: str = ""
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] = 0


class RedirectQueueArguments(msgspec.Struct, forbid_unknown_fields=True):
    """`target` "": the redirection ends."""

    name: str
    target: str = ""


class MoveArguments(msgspec.Struct, forbid_unknown_fields=True):
    """`by`, `count` and `selector` as in `MoveOrder`. To the exchange, by the key; without an exchange to the queue, or
    the exchange, of the name `key`, or, where that is "" too, to the queue's alternate."""

    name: str
    token: str
    exchange: str = ""
    key: str = ""
    by: str = ""
    count: int = 0
    selector: str = ""


class CloseConnectionArguments(msgspec.Struct, forbid_unknown_fields=True):
    client: str
    reason: str = ""


class StatisticsArguments(msgspec.Struct, forbid_unknown_fields=True):
    what: list[str] = []


class NoArguments(msgspec.Struct, forbid_unknown_fields=True):
    pass
