"""Ownership: two per cluster, one on duty; dials the sequencers, and is dialled by every queue replica."""

from __future__ import annotations

from ...protocol.lock.ownership import OwnershipMachine
from ..config import OwnershipConfig
from .member import MemberActor


class Ownership(MemberActor):
    async def start(self, config: OwnershipConfig) -> dict[str, str]:
        """Start listening and dial the sequencers; returns the addresses."""
        member = config.member
        machine = OwnershipMachine(member.inc, config.slice_ms, self.name, member.timing)
        self._run(machine, member, admits=lambda name: ".r" in name)
        return await self._open(member)
