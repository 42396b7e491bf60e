"""What the forms of the pages do, what they say then, and what is lost by those that ask whether one is sure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ...client.errors import Invalid
from ..deeds import Asker, Deeds
from ..messages import MessageSeen
from ..view import ManagementView
from .figures import count, counted
from .given import Given

BROWSED = 20
BROWSED_MOST = 200
BODY_BYTES = 4096
"""So much of each body is shown."""


class Done(NamedTuple):
    """Attributes: text, what it came to; messages, those that were looked at; None where it was no look."""

    text: str
    messages: list[MessageSeen] | None = None


class Form(NamedTuple):
    """Attributes: title, what its button says; do, what it does; loses, what is lost by it, of those that ask first."""

    title: str
    do: Callable[[Deeds, Asker, Given], Awaitable[Done]]
    loses: Callable[[ManagementView, Given], str] | None = None


# ---- a queue


async def publish(deeds: Deeds, who: Asker, given: Given) -> Done:
    exchange, key = given.text("exchange", ""), given.text("key", "")
    body = given.text("body", "").encode()
    taken = await deeds.publish(who, exchange, key, given.values("properties"), body)
    return Done("Sent: a queue has it." if taken else f"No queue has taken it: nothing is bound by the key {key!r}.")


async def browse(deeds: Deeds, who: Asker, given: Given) -> Done:
    wanted = given.number("count", BROWSED)
    if not 1 <= wanted <= BROWSED_MOST:
        raise Invalid(f"count is a number from 1 to {BROWSED_MOST}, not {wanted}")
    found = await deeds.browse(given.name("name"), wanted, BODY_BYTES, given.text("selector", ""))
    text = f"{counted(len(found), 'message')}, the oldest first. They stay in the queue."
    return Done(text if found else "There is none that nobody holds.", found)


async def purge(deeds: Deeds, who: Asker, given: Given) -> Done:
    gone = await deeds.purge(who, given.name("name"))
    return Done(f"Gone: {counted(gone, 'message')}.")


async def move(deeds: Deeds, who: Asker, given: Given) -> Done:
    told = await deeds.move(who, given.name("name"), given.name("to"), given.number("count"))
    return Done(_moved(told.moved, told.left))


async def redrive(deeds: Deeds, who: Asker, given: Given) -> Done:
    told = await deeds.redrive(who, given.name("name"), given.text("to", ""), given.number("count"))
    return Done(_moved(told.moved, told.left))


def _moved(moved: int, left: int) -> str:
    stay = f" Still there, since no queue took them: {count(left)}." if left else ""
    return f"Gone on: {counted(moved, 'message')}.{stay}"


async def declare_queue(deeds: Deeds, who: Asker, given: Given) -> Done:
    name, alternate = given.name("name"), given.text("alternate", "")
    new = await deeds.declare_queue(who, name, given.flag("durable"), alternate, given.values("arguments"))
    return Done(f"The queue {name!r} is declared." if new else f"The queue {name!r} was there, as it is to be.")


async def delete_queue(deeds: Deeds, who: Asker, given: Given) -> Done:
    name = given.name("name")
    gone = await deeds.delete_queue(who, name)
    to = f" To its alternate exchange: {counted(gone, 'message')}." if gone else ""
    return Done(f"The queue {name!r} is deleted.{to}")


def purge_loses(view: ManagementView, given: Given) -> str:
    queue = view.queue(given.name("name")) or {}
    messages = counted(queue["available"], "message") if "available" in queue else "the messages"
    return f"{messages} of the queue {given.text('name')!r}: all that no consumer holds, for good"


def delete_queue_loses(view: ManagementView, given: Given) -> str:
    name = given.name("name")
    queue = view.queue(name) or {}
    bindings, messages = counted(queue.get("bindings"), "binding"), counted(queue.get("messages"), "message")
    to = f"for the exchange {queue['alternate']!r}" if queue.get("alternate") else "lost for good"
    return f"the queue {name!r} with {bindings}, {messages}, {to}, and {counted(queue.get('consumers'), 'consumer')}"


# ---- exchanges and bindings


async def declare_exchange(deeds: Deeds, who: Asker, given: Given) -> Done:
    name, kind = given.name("name"), given.text("type", "direct")
    durable, alternate = given.flag("durable"), given.text("alternate", "")
    new = await deeds.declare_exchange(who, name, kind, durable, alternate, given.values("arguments"))
    return Done(f"The exchange {name!r} is declared." if new else f"The exchange {name!r} was there, as it is to be.")


async def delete_exchange(deeds: Deeds, who: Asker, given: Given) -> Done:
    await deeds.delete_exchange(who, given.name("name"))
    return Done(f"The exchange {given.text('name')!r} is deleted.")


def delete_exchange_loses(view: ManagementView, given: Given) -> str:
    exchange = view.exchange(given.name("name")) or {}
    bindings = counted(exchange.get("bindings"), "binding")
    return f"the exchange {given.text('name')!r} with {bindings}: what is sent to it is refused"


async def bind(deeds: Deeds, who: Asker, given: Given) -> Done:
    ends: dict[str, Any] = {"queue": given.text("queue", ""), "to_exchange": given.text("to_exchange", "")}
    if not any(ends.values()):
        raise Invalid("a binding leads somewhere: name a queue or an exchange")
    ends |= {"key": given.text("key", ""), "arguments": given.values("arguments")}
    new = await deeds.bind(who, given.name("exchange"), **ends)
    return Done("It is bound." if new else "It was bound so already.")


async def unbind(deeds: Deeds, who: Asker, given: Given) -> Done:
    ends: dict[str, Any] = {"queue": given.text("queue", ""), "to_exchange": given.text("to_exchange", "")}
    await deeds.unbind(who, given.name("exchange"), key=given.text("key", ""), **ends)
    return Done("The binding is gone.")


def unbind_loses(_: ManagementView, given: Given) -> str:
    to = given.text("queue", "") or given.text("to_exchange", "")
    exchange, key = given.name("exchange"), given.text("key", "")
    return f"the binding of {to!r} to the exchange {exchange!r} by the key {key!r}: no new messages come by it"


# ---- policies


async def add_policy(deeds: Deeds, who: Asker, given: Given) -> Done:
    name = given.name("name")
    changed = await deeds.add_policy(
        who, name, given.text("pattern", ""), given.values("arguments"), given.number("priority"),
        given.flag("operator"), given.text("alternate", ""),
    )  # fmt: skip
    return Done(f"The policy {name!r} {'is in force' if changed else 'was in force, as it is to be'}.")


async def delete_policy(deeds: Deeds, who: Asker, given: Given) -> Done:
    await deeds.delete_policy(who, given.name("name"), given.flag("operator"))
    return Done(f"The policy {given.text('name')!r} is deleted.")


def delete_policy_loses(view: ManagementView, given: Given) -> str:
    name, kind = given.name("name"), "operator_policy" if given.flag("operator") else "policy"
    queues = sum(queue.get(kind) == name for queue in view.rows("queues"))
    return f"the policy {name!r}, by which {counted(queues, 'queue')} got settings: these end"


FORMS: dict[str, Form] = {
    "publish": Form("Publish", publish),
    "browse": Form("Browse", browse),
    "purge": Form("Purge", purge, purge_loses),
    "move": Form("Move", move),
    "redrive": Form("Redrive", redrive),
    "declare-queue": Form("Declare queue", declare_queue),
    "delete-queue": Form("Delete queue", delete_queue, delete_queue_loses),
    "declare-exchange": Form("Declare exchange", declare_exchange),
    "delete-exchange": Form("Delete exchange", delete_exchange, delete_exchange_loses),
    "bind": Form("Bind", bind),
    "unbind": Form("Unbind", unbind, unbind_loses),
    "add-policy": Form("Set policy", add_policy),
    "delete-policy": Form("Delete policy", delete_policy, delete_policy_loses),
}
"""The last part of a form's path -> the form."""
