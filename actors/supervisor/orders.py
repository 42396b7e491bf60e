"""Orders of a supervisor to members. Each carries its number, and a member that knows a later supervisor refuses it
(`../members/member.py`, `MemberActor.obey`)."""

from __future__ import annotations

import asyncio
from typing import Any

from ...protocol.supervisor.supervision import Supervision
from ..ray_control.ray_handles import CALL_S, Handle
from .record import ClusterRecord

TELL_S = 2.0


class Orders:
    """In the name of one supervisor."""

    def __init__(self, record: ClusterRecord, supervision: Supervision) -> None:
        self._record = record
        self._supervision = supervision

    async def give(self, name: str, method: str, *args: Any, timeout_s: float = CALL_S) -> Any:
        """Have a member do something; returns its answer."""
        return await self.give_to(self._record.book[name].handle, method, *args, timeout_s=timeout_s)

    async def give_to(self, handle: Handle, method: str, *args: Any, timeout_s: float = CALL_S) -> Any:
        return await handle.call("obey", tuple(self._supervision.commission), method, *args, timeout_s=timeout_s)

    async def give_all(self, names: list[str], method: str, argument: Any) -> None:
        """Have the running ones of these members do something. A member that refuses or is silent holds up no other."""
        book = self._record.book
        calls = (self.give(name, method, argument, timeout_s=TELL_S) for name in names if book[name].pid)
        await asyncio.gather(*calls, return_exceptions=True)
