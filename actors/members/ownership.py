"""Ownership: two per cluster, one on duty; dials the sequencers, and is dialled by every queue replica."""

from __future__ import annotations

from ...protocol.lock.ownership import OwnershipMachine
from ..links.handshake import Credentials
from .member import MemberActor


class Ownership(MemberActor):
    async def start(
        self, own: Credentials, bind: str, inc: int, slice_ms: int, sequencers: dict[str, str]
    ) -> dict[str, str]:
        """Start listening and dial the sequencers (name to "host:port"); returns the addresses."""
        machine = OwnershipMachine(inc, slice_ms, self.name)
        shell = self._run(machine, own, admits=lambda name: ".r" in name)
        self.addresses = {"peers": await shell.listen_peers(bind)}
        await self.meet(sequencers)
        return self.addresses
