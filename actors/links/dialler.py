"""Keeps one outgoing peer link alive: dial, wait until it is lost, back off, dial again, until closed.

A link that lived and is lost is dialled at once. If that is refused, no process listens there any more, and the owner
hears of it.
"""

from __future__ import annotations

import asyncio
import logging
import random

from ...protocol.limits import DEFAULT, Limits
from .handshake import Credentials, DialOpening
from .links import Link, LinkOwner

log = logging.getLogger(__name__)

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0
LIVED_S = 0.25
"""A link that was up for this long was good; one that died sooner was turned away."""
CONNECT_S = 3.0
"""Packets that vanish refuse nothing: the kernel alone would go on for two minutes, with ever longer pauses."""

_jitter = random.Random()  # of its own: the program we run in may have seeded the common one


class Dialler:
    """Dials `address` for the peer `name` until `close`.

    Args:
        host: owner of the link.
        own: this process's credentials.
        name: the peer that must answer there.
        address: "host:port".
    """

    def __init__(self, host: LinkOwner, own: Credentials, name: str, address: str, limits: Limits = DEFAULT) -> None:
        self.name = name
        self.address = address
        self.link: Link | None = None
        self._host = host
        self._own = own
        self._limits = limits
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"dial {name}")

    def close(self) -> None:
        self._task.cancel()
        if self.link is not None:
            self.link.close()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        host, port = self.address.rsplit(":", 1)
        wait_s = FIRST_WAIT_S
        complained = ""
        lived = False
        while True:
            link = Link(self._host, DialOpening(self._own, self.name), self._limits)
            lost = loop.create_future()
            link.on_lost = lambda lost=lost: None if lost.done() else lost.set_result(None)
            try:
                async with asyncio.timeout(CONNECT_S):
                    await loop.create_connection(lambda link=link: link, host, int(port))
            except (OSError, TimeoutError) as error:
                if lived and isinstance(error, ConnectionRefusedError):
                    self._host.link_gone(self.name)
                lived = False
                if complained != str(error):
                    complained = str(error)
                    log.warning("%s cannot reach %s at %s yet: %s", self._own.name, self.name, self.address, error)
            else:
                self.link = link
                began = loop.time()
                await lost
                self.link = None
                lived = loop.time() - began > LIVED_S
                if lived:
                    wait_s = FIRST_WAIT_S
                    continue
            await asyncio.sleep(wait_s * _jitter.uniform(0.5, 1.0))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
