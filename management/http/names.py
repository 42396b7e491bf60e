"""Arguments by RabbitMQ's names, and ours where RabbitMQ has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...client.definitions.values import to_json
from ...client.durations import IN_MS, in_ms
from ...client.errors import Invalid
from ...client.management import TYPED
from ...protocol.wiring.definitions import given
from .table import VHOST

THEIRS = {
    "qpid.max_count": "x-max-length", "qpid.max_size": "x-max-length-bytes", "qpid.policy_type": "x-overflow",
    "manta.delivery_limit": "x-delivery-limit", "manta.dead_letter_key": "x-dead-letter-routing-key",
}  # fmt: skip
"""Our name of an argument -> RabbitMQ's, where the values are the same, but for those of overflow."""
OVERFLOW = {"reject": "reject-publish", "ring": "drop-head"}
"""Our word -> RabbitMQ's; any other goes by our name alone."""
FLAGS_OF_OURS = {"auto_delete": "manta.auto_delete", "exclusive": "manta.exclusive", "internal": "manta.internal"}
"""What is a field in RabbitMQ -> the argument that it is here."""
QUEUE_TYPE = "x-queue-type"
TYPES = ("classic", "quorum")
"""RabbitMQ's types of queues that are the same here: every queue is replicated."""
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
ALTERNATE_EXCHANGE = "alternate-exchange"
DEFAULT_EXCHANGE = "amq.default"
"""How the exchange without a name is called in paths."""


def told_arguments(arguments: Mapping[str, Any], alternate: str = "", alternate_name: str = "") -> dict[str, Any]:
    """Arguments as they are answered: what a client gave, by RabbitMQ's names, without what are fields there.

    Args:
        alternate: the alternate exchange, "" for none. alternate_name: the argument that it is in RabbitMQ.
    """
    found = {name: value for name, value in given(dict(arguments)).items() if name not in FLAGS_OF_OURS.values()}
    told = dict(_theirs(name, value) for name, value in found.items())
    if alternate:
        told[alternate_name] = alternate
    return to_json(told)


def _theirs(name: str, value: Any) -> tuple[str, Any]:
    if name == "qpid.policy_type":
        return (THEIRS[name], OVERFLOW[value]) if value in OVERFLOW else (name, value)
    return THEIRS.get(name, name), value


def read_queue_arguments(arguments: Mapping[str, Any], auto_delete: bool) -> dict[str, Any]:
    """The arguments that a queue is declared with.

    Raises:
        Invalid: it would be of a type that is not here, or one connection's alone.
    """
    found = dict(arguments)
    kind = found.pop(QUEUE_TYPE, "quorum")
    if kind not in TYPES:
        raise Invalid(f"{QUEUE_TYPE} is {kind!r:.60}: queues here are like {' and '.join(TYPES)} ones, all replicated")
    if (
        found.get(FLAGS_OF_OURS["exclusive"]) not in (None, False)
        or found.get("qpid.lifetime-policy") == "delete-on-close"
    ):
        raise Invalid("a queue that is declared by HTTP is no connection's alone: leave out that it is exclusive")
    return found | ({FLAGS_OF_OURS["auto_delete"]: True} if auto_delete else {})


def told_policy(arguments: Mapping[str, Any], alternate: str) -> dict[str, Any]:
    """What a policy sets, by the names that it has in RabbitMQ: without x-."""
    told = told_arguments(arguments, alternate, DEAD_LETTER_EXCHANGE)
    return {name.removeprefix("x-"): value for name, value in told.items()}


def told_keywords(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What policies have made of a queue, which is told by keywords of `declare_queue`, as `told_policy` tells it."""
    arguments = {
        TYPED[name]: in_ms(name, value) if name in IN_MS else value for name, value in settings.items() if name in TYPED
    }
    return told_policy(arguments, settings.get("alternate", ""))


def read_policy(definition: Mapping[str, Any]) -> dict[str, Any]:
    """What a policy sets, by the names of arguments.

    Raises:
        Invalid: two of them are the same.
    """
    found: dict[str, Any] = {}
    for name, value in definition.items():
        argument = name if "." in name or name.startswith("x-") else f"x-{name}"
        if argument in found:
            raise Invalid(f"the definition has {name!r:.60} twice, with x- and without: leave one out")
        found[argument] = value
    return found


def of_vhost(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as it is answered, with the virtual host."""
    return {**row, "vhost": VHOST}


def exchange_name(name: str) -> str:
    """An exchange as a path or a body names it: the default one has none."""
    return "" if name == DEFAULT_EXCHANGE else name
