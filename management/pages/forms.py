"""What the forms of the pages do, what they say then, and what is lost by those that ask whether one is sure."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ...client.definitions.comparison import NEW, UNCHANGED
from ...client.errors import Invalid
from ..deeds import Asker, Deeds
from ..imports import ImportedObject
from ..messages import REQUEUE, MessageSeen
from ..view import ManagementView
from .figures import count, counted
from .given import Given

BROWSED = 20
BROWSED_MOST = 200
BODY_BYTES = 4096
"""So much of each body is shown."""
TOLD = 200
"""So many objects of a file are named."""
ACCEPT, REJECT = "ack_requeue_false", "reject_requeue_false"
TAKES = (ACCEPT, REJECT)
"""Modes of getting by which messages leave their queue."""
BECAME = {
    REQUEUE: "the oldest first; they are back in the queue, and it counts a delivery more of each",
    ACCEPT: "the oldest first; they are gone", REJECT: "the oldest first; they are rejected",
}  # fmt: skip


class Done(NamedTuple):
    """Attributes: text, what it came to; messages, those that were looked at, None where it was no look; objects, those
    of a definitions file of which there is something to say; tone, "ok" or "bad"."""

    text: str
    messages: list[MessageSeen] | None = None
    objects: list[ImportedObject] | None = None
    tone: str = "ok"


class Form(NamedTuple):
    """Attributes: title, what its button says; do, what it does; loses, what is lost by it, of those that ask first, ""
    where nothing is; has_file, whether a file comes with it."""

    title: str
    do: Callable[[Deeds, Asker, Given], Awaitable[Done]]
    loses: Callable[[ManagementView, Given], str] | None = None
    has_file: bool = False


# ---- a queue


async def publish(deeds: Deeds, who: Asker, given: Given) -> Done:
    exchange, key = given.text("exchange", ""), given.text("key", "")
    body = given.text("body", "").encode()
    if given.flag("base64"):
        try:
            body = base64.b64decode(body, validate=True)
        except ValueError as error:
            raise Invalid(f"the body is not in base64: {error}") from None
    taken = await deeds.publish(who, exchange, key, given.values("properties"), body)
    return Done("Sent: a queue has it." if taken else f"No queue has taken it: nothing is bound by the key {key!r}.")


async def browse(deeds: Deeds, who: Asker, given: Given) -> Done:
    found = await deeds.browse(given.name("name"), _count(given), BODY_BYTES, given.text("selector", ""))
    text = f"{counted(len(found), 'message')}, the oldest first. They stay in the queue."
    return Done(text if found else "There is none that nobody holds.", found)


async def get(deeds: Deeds, who: Asker, given: Given) -> Done:
    mode = given.text("mode", REQUEUE)
    found = await deeds.get(who, given.name("name"), _count(given), mode, BODY_BYTES)
    text = f"{counted(len(found), 'message')}, {BECAME.get(mode, '')}."
    return Done(text if found else "There is none that nobody holds.", found)


def get_loses(view: ManagementView, given: Given) -> str:
    mode, what = given.text("mode", REQUEUE), counted(_count(given), "message")
    if mode not in TAKES:
        return ""
    queue = view.queue(given.name("name")) or {}
    to = f"for the exchange {queue['alternate']!r}" if mode == REJECT and queue.get("alternate") else "for good"
    return f"at most {what} of the queue {given.text('name')!r}, {to}"


def _count(given: Given) -> int:
    wanted = given.number("count", BROWSED)
    if not 1 <= wanted <= BROWSED_MOST:
        raise Invalid(f"count is a number from 1 to {BROWSED_MOST}, not {wanted}")
    return wanted


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


# ---- connections


async def close_connection(deeds: Deeds, who: Asker, given: Given) -> Done:
    await deeds.close_connection(who, given.name("broker"), given.name("client"))
    return Done(f"The connection of {given.text('client')!r} is over.")


def close_connection_loses(view: ManagementView, given: Given) -> str:
    broker, client = given.name("broker"), given.name("client")
    row = view.connection(broker, client) or {}
    links = f"{counted(row.get('senders'), 'sender')} and {counted(row.get('receivers'), 'receiver')}"
    held = "what it holds goes back to its queues, and its program does not connect again by itself"
    return f"the connection of {client!r} to {broker}, with {links}: {held}"


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


# ---- definitions


async def import_definitions(deeds: Deeds, who: Asker, given: Given) -> Done:
    if not given.file:
        raise Invalid("there is no file, or nothing is in it: choose one")
    done = await deeds.import_definitions(who, given.file, given.text("vhost", ""))
    counts = ", ".join(f"{count(number)} {outcome}" for outcome, number in sorted(done.counts.items()))
    over = ", ".join(f"{count(number)} {name}" for name, number in sorted(done.passed_over.items()))
    text = f"{counts or 'Nothing in it is for a cluster like this'}."
    text += f" Not looked at: {over}." if over else ""
    told = [one for one in done.objects if one.outcome not in (NEW, UNCHANGED) or one.remarks]
    return Done(text, objects=told[:TOLD], tone="ok" if done.complete else "bad")


FORMS: dict[str, Form] = {
    "publish": Form("Publish", publish),
    "browse": Form("Browse", browse),
    "get": Form("Get", get, get_loses),
    "purge": Form("Purge", purge, purge_loses),
    "move": Form("Move", move),
    "redrive": Form("Redrive", redrive),
    "declare-queue": Form("Declare queue", declare_queue),
    "delete-queue": Form("Delete queue", delete_queue, delete_queue_loses),
    "declare-exchange": Form("Declare exchange", declare_exchange),
    "delete-exchange": Form("Delete exchange", delete_exchange, delete_exchange_loses),
    "bind": Form("Bind", bind),
    "unbind": Form("Unbind", unbind, unbind_loses),
    "close-connection": Form("Close connection", close_connection, close_connection_loses),
    "add-policy": Form("Set policy", add_policy),
    "delete-policy": Form("Delete policy", delete_policy, delete_policy_loses),
    "import-definitions": Form("Import", import_definitions, has_file=True),
}
"""The last part of a form's path -> the form."""
