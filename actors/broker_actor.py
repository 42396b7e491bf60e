"""A broker node: clients on one listener, its own queue replicas on another, links to the sequencers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..protocol.broker import BrokerMachine
from ..protocol.effects import Dismiss, Drain
from ..protocol.errors import LocalError
from ..protocol.limits import DEFAULT
from ..protocol.reporting import ReportingBroker
from .deputy import Deputy
from .handshake import Credentials
from .member import Member


class BrokerNode(Member):
    _deputy: Deputy | None = None

    async def start(
        self,
        own: Credentials,
        bind: str,
        client_port: int,
        inc: int,
        members: list[str],
        token: str,
        peers: dict[str, str],
        blank: bool,
        want_spare: Callable[[str], None],
        events: bool = False,
        replicas_max: int = 0,
        message_bytes: int = DEFAULT.message_bytes,
    ) -> dict[str, str]:
        """Start listening and dial the sequencers, and the tap if there is one.

        Args:
            bind: host to listen on.
            client_port: for clients; 0 for any.
            blank: an earlier incarnation of this broker was there before.
            want_spare: called with this broker's id when a warm queue replica has been used up.
            events: whether the cluster keeps events.
            replicas_max: most replicas that keep queues; 0: all that there are.
            message_bytes: of the largest message, encoded.

        Returns:
            The addresses: "peers" and "clients".
        """
        mine = self.name + "."
        limits = msgspec.structs.replace(DEFAULT, message_bytes=message_bytes)
        machine = ReportingBroker if events else BrokerMachine
        shell = self._run(
            machine(self.name, inc, members, token, limits, blank=blank, replicas_max=replicas_max),
            own,
            admits=lambda name: name.startswith(mine),
            on_want_spare=lambda: want_spare(self.name),
        )
        try:
            clients = await shell.listen_clients(bind, client_port)
        except LocalError:
            if not blank:
                raise
            clients = await shell.listen_clients(bind)  # the port of its predecessor is taken: any other
        self.addresses = {"peers": await shell.listen_peers(bind), "clients": clients}
        await self.meet(peers)
        return self.addresses

    async def drain(self) -> None:
        """Leave the cluster: clients are sent to other members, and this process ends when it has no say any more."""
        self._running().give(Drain())

    async def dismiss(self, broker: str) -> bool:
        """Have another broker, which is dead for good, taken out of the cluster; whether it is out, by what is known
        from earlier calls."""
        shell = self._running()
        shell.give(Dismiss(broker))
        return broker in shell.machine.standing.left  # type: ignore[union-attr]

    async def remember(self, deputy: Deputy) -> None:
        """Keep what a new Supervisor must know, and look from time to time whether one is needed."""
        if self._deputy is not None:
            self._deputy.close()
        self._deputy = deputy
        deputy.begin()

    async def recall(self) -> bytes | None:
        """What the last Supervisor left here."""
        return self._deputy.legacy if self._deputy is not None else None
