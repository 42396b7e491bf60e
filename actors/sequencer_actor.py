"""The Sequencer: one per cluster; everybody dials it."""

from __future__ import annotations

from ..protocol.sequencer import SequencerMachine
from .handshake import Credentials
from .member import Member


class Sequencer(Member):
    async def start(self, own: Credentials, bind: str, uid: int, members: list[str]) -> dict[str, str]:
        """Start listening; returns the addresses."""
        shell = self._run(SequencerMachine(uid, members), own)
        self.addresses = {"peers": await shell.listen_peers(bind)}
        return self.addresses
