"""Keeps one outgoing peer link alive: dial, wait until it is lost, back off, dial again, until closed.

A link that lived and is lost is dialled at once. If that is refused, no process listens there any more, and the owner
hears of it.
"""

from __future__ import annotations

import asyncio
import logging
import random

from ...protocol.limits import DEFAULT, Limits
from ...protocol.timing import DEFAULT_TIMING, Timing
from .handshake import Credentials, DialOpening
from .links import Link, LinkOwner
from .near import dial_near

log = logging.getLogger(__name__)

PATIENCE_S = 5.0

_jitter = random.Random()  # of its own: the program we run in may have seeded the common one


class Dialler:
    """Dials `address` for the peer `name` until `close`.

    Args:
        host: owner of the link.
        own: this process's credentials.
        name: the peer that must answer there.
        address: "host:port".
        limits, timing: of its links.
        patience_s: it is logged that the peer cannot be reached when that has lasted so long: one that has died is
            told of by its supervisor, and dialled no more soon.

    Attributes:
        hushed: it is no news any more whether the peer is there.
    """

    def __init__(
        self,
        host: LinkOwner,
        own: Credentials,
        name: str,
        address: str,
        limits: Limits = DEFAULT,
        timing: Timing = DEFAULT_TIMING,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.name = name
        self.address = address
        self.link: Link | None = None
        self.hushed = False
        self._host = host
        self._own = own
        self._limits = limits
        self._timing = timing
        self._patience_s = patience_s
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=f"dial {name}")

    def close(self) -> None:
        self._task.cancel()
        if self.link is not None:
            self.link.close()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        host, port = self.address.rsplit(":", 1)
        timing = self._timing
        wait_s = first_s = timing.redial_ms / 1000
        complained, missed_s = "", loop.time()
        lived = False
        while True:
            link = Link(self._host, DialOpening(self._own, self.name), self._limits, timing=timing)
            lost = loop.create_future()
            link.on_lost = lambda lost=lost: None if lost.done() else lost.set_result(None)
            try:
                async with asyncio.timeout(timing.connect_ms / 1000):
                    if (sock := dial_near(self.address)) is not None:
                        await loop.create_unix_connection(lambda link=link: link, sock=sock)
                    else:
                        await loop.create_connection(lambda link=link: link, host, int(port))
            except (OSError, TimeoutError) as error:
                if lived and isinstance(error, ConnectionRefusedError):
                    self._host.link_gone(self.name)
                lived = False
                patient = self.hushed or loop.time() - missed_s < self._patience_s
                if complained != str(error) and not patient:
                    complained = str(error)
                    log.warning(
                        "%(member)s cannot reach %(peer)s at %(address)s yet: %(reason)s",
                        {"member": self._own.name, "peer": self.name, "address": self.address, "reason": error},
                    )
            else:
                self.link = link
                began = loop.time()
                await lost
                self.link, missed_s = None, loop.time()
                lived = loop.time() - began > timing.link_lived_ms / 1000
                if lived:
                    wait_s = first_s
                    continue
            await asyncio.sleep(wait_s * _jitter.uniform(0.5, 1.0))
            wait_s = min(wait_s * 2, timing.redial_most_ms / 1000)
