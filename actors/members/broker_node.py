"""A broker node: clients on one listener, its own queue replicas on another, links to the sequencers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...protocol.broker.machine import BrokerMachine
from ...protocol.capture.capture import BrokerCapture
from ...protocol.errors import LocalError
from ...protocol.machine import Dismiss, Drain, Load, Supervises
from ...protocol.status.members import AnyMember, BrokerMember
from ...protocol.stored.broker import StoredBrokerMachine
from ..config import BrokerConfig
from ..supervisor.supervisor_watch import SupervisorWatch, WatchConfig
from .broker_log import BrokerLog
from .member import MemberActor
from .moves import Moves
from .stream_reader import StreamReader


class BrokerNode(MemberActor):
    measures = True
    _watch: SupervisorWatch | None = None

    def __init__(self, name: str, fenced: bool = False) -> None:
        super().__init__(name, fenced)
        self._moves = Moves()

    async def start(self, config: BrokerConfig, want_spare: Callable[[str], None]) -> dict[str, str]:
        """Start listening and dial the sequencers, and the tap if there is one.

        Args:
            want_spare: called with this broker's id when a warm queue replica has been used up.

        Returns:
            The addresses: "peers" and "clients".
        """
        member, mine = config.member, self.name + "."
        reader = StreamReader(config.store, self._running)
        capture = [BrokerCapture(self.name, member.inc, member.timing, member.limits)] if config.events else []
        machine = (StoredBrokerMachine if config.store else BrokerMachine)(
            self.name, member.inc, list(config.voters), config.token, member.limits, blank=config.blank,
            replicas_max=config.replicas_max, timing=member.timing,
            observers=(BrokerLog(self.name, member.inc), *capture),
        )  # fmt: skip
        machine.connections.cluster = member.credentials.cluster
        shell = self._run(
            machine,
            member,
            config.token,
            admits=lambda name: name.startswith(mine),
            on_want_spare=lambda: want_spare(self.name),
            deeds={Load: reader.load},
        )
        try:
            clients = await shell.listen_clients(member.bind, config.client_port)
        except LocalError:
            if not config.blank:
                raise
            clients = await shell.listen_clients(member.bind)  # the port of its predecessor is taken: any other
        return await self._open(member, clients=clients)

    async def members(self, addresses: dict[str, str]) -> None:
        self._moves.heard(addresses, time.time())
        await super().members(addresses)

    def report(self) -> AnyMember:
        status = super().report()
        if isinstance(status, BrokerMember):
            status.moves = self._moves.report(time.time())
        return status

    async def drain(self) -> None:
        """Leave the cluster: clients are sent to other members, and this process ends when it has no say any more."""
        self._running().give(Drain())

    async def dismiss(self, broker: str) -> bool:
        """Have another broker, which is dead for good, taken out of the cluster; whether it is out, by what is known
        from earlier calls."""
        shell = self._running()
        shell.give(Dismiss(broker))
        machine = shell.machine
        assert isinstance(machine, BrokerMachine)
        return broker in machine.lifecycle.left

    async def confirm(self, giver: tuple[int, str, str], elected: bool) -> dict[str, Any]:
        """A supervisor asks whether it is the one (`elected`), or wants to be.

        Returns:
            Who supervises by what is known here ("holder": number, id, name; "settled": the number in the cluster
            stream), the names of the "linked" peers, and the "ballot" of the sequencer that is followed.
        """
        shell = self._running()
        shell.give(Supervises(*giver, elected))
        machine = shell.machine
        assert isinstance(machine, BrokerMachine)
        linked = [name for name, link in shell.links.items() if not link.is_client]
        return {
            "holder": tuple(self.office.holder), "settled": self.office.settled, "linked": linked,
            "ballot": tuple(machine.view.promised),
        }  # fmt: skip

    async def supervisor_silent(self) -> tuple[int, int]:
        """The number of the supervisor, and for how long this broker has not heard of it, in milliseconds."""
        return self.office.holder.number, self.office.silent_ms(int(time.time() * 1000))

    def _needed(self, outside: bool) -> str:
        machine = self.shell.machine if self.shell is not None and not outside else None
        return machine.lifecycle.needed(int(time.time() * 1000)) if isinstance(machine, BrokerMachine) else ""

    async def remember(self, config: WatchConfig) -> None:
        """Keep what a new Supervisor must know, and look from time to time whether one is needed."""
        if self._watch is not None:
            self._watch.close()
        self._watch = SupervisorWatch(config, self)

    async def close(self, shutdown: str) -> None:
        """From here on it hears no supervisor, and takes none for lost."""
        if self._watch is not None:
            self._watch.close()
        await super().close(shutdown)

    async def recall(self) -> bytes | None:
        """The state that the last supervisor left here."""
        return self._watch.config.state if self._watch is not None else None
