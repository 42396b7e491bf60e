"""The actors' reports of themselves, each with its line of the address book."""

from __future__ import annotations

import asyncio
from typing import Any

from ...protocol.errors import LocalError
from ..ray_control.ray_handles import ActorGone, Handle
from .address_book import AddressBook

Report = dict[str, Any]


async def reports(book: AddressBook, timeout_s: float, role: str = "") -> list[Report]:
    """The reports of the actors (of a role); one that does not answer is reported as not alive."""
    asked = {name: entry for name, entry in book.items() if entry.pid and role in ("", entry.role)}
    answers = await asyncio.gather(*(_report(entry.handle, timeout_s) for entry in asked.values()))
    return [
        {
            "name": name,
            "role": entry.role,
            "pid": entry.pid,
            "node": entry.node,
            "host": entry.host,
            "loop": entry.loop,
            "address": entry.clients or entry.peers,
            **answer,
        }
        for (name, entry), answer in zip(asked.items(), answers, strict=True)
    ]


async def _report(handle: Handle, timeout_s: float) -> Report:
    try:
        return {"alive": True, **await handle.call("status", timeout_s=timeout_s)}
    except ActorGone as error:
        return {"alive": False, "error": str(error)}
    except LocalError as error:
        return {"alive": True, "error": str(error)}
