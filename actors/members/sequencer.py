"""A Sequencer: the one that leads, or a standby. Everybody dials every one of them."""

from __future__ import annotations

import time

from ...protocol.sequencer.machine import SequencerMachine
from ..links.handshake import Credentials
from .member import MemberActor


class Sequencer(MemberActor):
    async def start(self, own: Credentials, bind: str, uid: int, members: list[str], leading: bool) -> dict[str, str]:
        """Start listening; returns the addresses. `leading`: the cluster begins with this one."""
        shell = self._run(SequencerMachine(uid, members, leading=leading), own)
        self.addresses = {"peers": await shell.listen_peers(bind)}
        return self.addresses

    def _needed(self, outside: bool) -> str:
        machine = self.shell.machine if self.shell is not None else None
        return machine.mandate.needed(int(time.time() * 1000)) if isinstance(machine, SequencerMachine) else ""
