"""A broker node: clients on one listener, its own queue replicas on another, a link to the sequencer."""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.broker import BrokerMachine
from ..protocol.effects import SEQUENCER
from .handshake import Credentials
from .member import Member


class BrokerNode(Member):
    async def start(
        self,
        own: Credentials,
        bind: str,
        client_port: int,
        inc: int,
        members: list[str],
        token: str,
        sequencer: str,
        want_spare: Callable[[str], None],
    ) -> dict[str, str]:
        """Start listening and dial the sequencer.

        Args:
            bind: host to listen on.
            client_port: for clients; 0 for any.
            want_spare: called with this broker's id when a warm queue replica has been used up.

        Returns:
            The addresses: "peers" and "clients".
        """
        mine = self.name + "."
        shell = self._run(
            BrokerMachine(self.name, inc, members, token),
            own,
            admits=lambda name: name.startswith(mine),
            on_want_spare=lambda: want_spare(self.name),
        )
        self.addresses = {
            "peers": await shell.listen_peers(bind),
            "clients": await shell.listen_clients(bind, client_port),
        }
        shell.dial(SEQUENCER, sequencer)
        return self.addresses
