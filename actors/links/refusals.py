"""Links that one side did not take: kept for a moment, so that `status` can say why two do not find each other."""

from __future__ import annotations

from ...protocol.errors import UNAUTHORIZED, WRONG_VERSION, PeerError
from ...protocol.status.members import RefusedClientsStatus
from ...protocol.timing import DEFAULT_TIMING, Timing
from .links import Link

KEPT = 16
LASTING = (UNAUTHORIZED, WRONG_VERSION)
"""Refusals that do not pass by themselves."""


class Refusals:
    """Attributes: clients: how many clients were refused before their connection was open, and why the last one was."""

    def __init__(self, timing: Timing = DEFAULT_TIMING) -> None:
        self._named_s = timing.refusal_ms / 1000
        self.clients = 0
        self.last_client = ""
        self._peers: dict[str, tuple[float, str]] = {}  # name, or address -> when, why

    def note(self, link: Link, reason: PeerError, now_s: float) -> None:
        """`link` ended before it was up; `now_s`: the loop's time."""
        if link.is_client:
            self.clients += 1
            self.last_client = f"{link.address}: {reason}"
        elif reason.code in LASTING:
            self._peers.pop(link.who(), None)
            self._peers[link.who()] = (now_s, str(reason))
            if len(self._peers) > KEPT:
                del self._peers[next(iter(self._peers))]

    def up(self, link: Link) -> None:
        self._peers.pop(link.peer, None)

    def named(self, now_s: float) -> dict[str, str]:
        """Peers that were refused a moment ago -> why."""
        return {name: why for name, (at_s, why) in self._peers.items() if now_s - at_s < self._named_s}

    def report(self) -> RefusedClientsStatus:
        return RefusedClientsStatus(count=self.clients, last=self.last_client)
