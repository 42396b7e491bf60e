"""One queue, as `queue show` prints it; and its limit, as a table has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from rich.table import Table
from rich.text import Text

from ...protocol.status.machines import QueueStatus
from .sheets import GAP, byte_count

NEVER = "never holds its producers back"


def limit_of(queue: Mapping[str, Any]) -> str:
    """A queue's limit in a few words, "" for none: "1,000 ring"."""
    definition = queue.get("definition", {})
    count, size = definition.get("max_count", 0), definition.get("max_size", 0)
    most = ", ".join([f"{count:,}"] * bool(count) + [byte_count(size)] * bool(size))
    return f"{most} {definition.get('overflow', '')}".strip() if most else ""


def sheet_of(queue: Mapping[str, Any], members: Mapping[str, str]) -> Table:
    """All that a broker says of a queue.

    Args:
        members: broker -> client address, of those that take clients.
    """
    sheet = Table.grid(padding=(0, GAP, 0, 0))
    sheet.add_column(style="dim", no_wrap=True)
    sheet.add_column(overflow="fold")
    for name, value in _lines(queue, members):
        sheet.add_row(name, Text(value))
    return sheet


def _delayed(status: QueueStatus) -> str:
    return f", {status.delayed:,} delayed" if status.delayed else ""


def _lines(queue: Mapping[str, Any], members: Mapping[str, str]) -> list[tuple[str, str]]:
    status = QueueStatus.read(queue)
    definition, declared = dict(queue.get("definition", {})), queue.get("declared")
    stop, resume = (_levels(definition, f"flow_{word}") for word in ("stop", "resume"))
    for name in [name for name in definition if name.startswith("flow_")]:
        definition.pop(name)
    if declared is not None:
        definition = {name: value for name, value in declared.items() if not name.startswith("flow_")}
    more = f"with more than {stop} producers wait, with less than {resume} they go on" if stop else NEVER
    own = [f"{name}={value!r}" for name, value in queue["arguments"].items() if not name.startswith(_BROKERS)]
    return [
        ("queue", queue["name"]),
        ("id", queue["id"]),
        ("kind", f"{queue.get('kind', '?')}, {'durable' if status.durable is True else 'transient'}"),
        ("declared with", ", ".join(f"{name}={value!r}" for name, value in definition.items()) or "-"),
        ("own arguments", ", ".join(own) or "-"),
        ("policies", _policies(queue)),
        ("alternate", queue["alternate"] or "- (rejected messages are discarded)"),
        ("limit", limit_of(queue) or "none"),
        *_redirected(queue),
        ("flow control", more),
        ("producers", _producers(status)),
        (
            "messages",
            f"{status.messages:,}: {status.available:,} available, {status.acquired:,} acquired{_delayed(status)}",
        ),
        ("bytes", byte_count(status.bytes)),
        ("dead-lettering", f"{status.dead_lettering:,}"),
        ("so far", _so_far(status)),
        ("consumers", f"{status.consumers:,} at {status.replica.partition('.')[0]}, which was asked"),
        ("consume lock", f"{status.owner or 'nobody has it'}; hand-overs so far: {status.handovers:,}"),
        ("replicas", "\n".join(_replica(broker, members) for broker in queue.get("kept_by", ())) or "-"),
    ]


def _policies(queue: Mapping[str, Any]) -> str:
    """Which are in force, and what they give."""
    names = [queue["policy"]] if "policy" in queue else []
    names += [f"{queue['operator_policy']} (operator's)"] if "operator_policy" in queue else []
    given = ", ".join(f"{name}={value!r}" for name, value in queue.get("policy_definition", {}).items())
    return f"{' and '.join(names)}: {given or 'nothing besides'}" if names else "-"


_BROKERS = ("qpid.", "x-", "manta.")


def _redirected(queue: Mapping[str, Any]) -> list[tuple[str, str]]:
    to, sources = queue.get("redirected_to", ""), queue.get("redirected_from", ())
    lines = [("redirected", f"what is sent to it comes into {to}")] if to else []
    return lines + ([("gets besides", f"what is sent to {', '.join(sources)}")] if sources else [])


def _levels(definition: Mapping[str, Any], word: str) -> str:
    count, size = definition.get(f"{word}_count", 0), definition.get(f"{word}_size", 0)
    return " or ".join([f"{count:,} messages"] * bool(count) + [byte_count(size)] * bool(size))


def _producers(queue: QueueStatus) -> str:
    count = queue.flow_stopped_count
    often = f" (times so far: {count:,})" if count is not UNSET and count else ""
    return ("are held back" if queue.flow_stopped is True else "go on") + often


def _so_far(queue: QueueStatus) -> str:
    went = (
        (queue.accepted, "accepted"),
        (queue.discarded, "discarded"),
        (queue.dead_lettered, "dead-lettered"),
        (queue.expired, "expired"),
        (queue.moved, "moved"),
    )
    parts = ", ".join(f"{count:,} {how}" for count, how in went if count)
    refused = f"; refused of these: {queue.refused:,}" if queue.refused is not UNSET and queue.refused else ""
    return f"{queue.enqueued:,} came, {queue.dequeued:,} went{f': {parts}' * bool(parts)}{refused}"


def _replica(broker: str, members: Mapping[str, str]) -> str:
    return f"{broker}  {members.get(broker) or 'takes no clients now'}"
