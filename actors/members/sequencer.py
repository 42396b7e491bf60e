"""A Sequencer: the one that leads, or a standby. Everybody dials every one of them."""

from __future__ import annotations

import time

from ...protocol.sequencer.machine import SequencerMachine
from ..config import SequencerConfig
from .member import MemberActor
from .sequencer_log import SequencerLog


class Sequencer(MemberActor):
    async def start(self, config: SequencerConfig) -> dict[str, str]:
        """Start listening; returns the addresses."""
        member = config.member
        machine = SequencerMachine(
            member.inc, list(config.voters), leading=config.leading, timing=member.timing, limits=member.limits,
            observers=(SequencerLog(self.name),),
        )  # fmt: skip
        self._run(machine, member)
        return await self._open(member)

    def _needed(self, outside: bool) -> str:
        machine = self.shell.machine if self.shell is not None else None
        return machine.mandate.needed(int(time.time() * 1000)) if isinstance(machine, SequencerMachine) else ""
