"""The actors' reports of themselves, each with its line of the address book."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ...protocol.errors import LocalError
from ...protocol.status.members import AnyMember, read_member
from ..ray_control.ray_handles import ActorGone
from .address_book import AddressBook, BookEntry


async def reports(book: AddressBook, timeout_s: float, role: str = "") -> list[AnyMember]:
    """The reports of the actors (of a role); one that does not answer is reported as not alive."""
    asked = {name: entry for name, entry in book.items() if entry.pid and role in ("", entry.role)}
    return list(await asyncio.gather(*(_report(name, entry, timeout_s) for name, entry in asked.items())))


async def _report(name: str, entry: BookEntry, timeout_s: float) -> AnyMember:
    try:
        return in_book(name, entry, await entry.handle.call("status", timeout_s=timeout_s))
    except ActorGone as error:
        return in_book(name, entry, {"alive": False, "error": str(error)})
    except LocalError as error:
        return in_book(name, entry, {"error": str(error)})


def in_book(name: str, entry: BookEntry, said: Mapping[str, Any]) -> AnyMember:
    """What an actor has said of itself, with its line of the address book."""
    status = read_member({"name": name, "role": entry.role, "pid": entry.pid, **said})
    status.node, status.host, status.loop = entry.node, entry.host, entry.loop
    status.address = entry.clients or entry.peers
    return status
