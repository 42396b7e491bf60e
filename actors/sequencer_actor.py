"""A Sequencer: the one that leads, or a standby. Everybody dials every one of them."""

from __future__ import annotations

from ..protocol.sequencer import SequencerMachine
from .handshake import Credentials
from .member import Member


class Sequencer(Member):
    async def start(self, own: Credentials, bind: str, uid: int, members: list[str], leading: bool) -> dict[str, str]:
        """Start listening; returns the addresses. `leading`: the cluster begins with this one."""
        shell = self._run(SequencerMachine(uid, members, leading=leading), own)
        self.addresses = {"peers": await shell.listen_peers(bind)}
        return self.addresses
