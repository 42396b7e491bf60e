"""Which brokers have moved: their clients connect elsewhere than before. Pure.

A broker whose host is gone begins again on another one, under its name and at another address. Clients are told by the
others; an operator who looks for it (for a firewall's rules, or a list of addresses) is told here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...protocol.status.cluster import MovedStatus
from ...protocol.status.members import AnyMember, BrokerMember, MoveStatus

KEPT_S = 3600.0
"""For this long `status` names a move; the event table names it for good."""


class Moves:
    """The addresses of all brokers, as one broker has heard them."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._moves: dict[str, tuple[str, str, float]] = {}

    def heard(self, addresses: Mapping[str, str], now_s: float) -> None:
        """Where clients connect to the brokers now.

        Args:
            addresses: broker -> "host:port"; who is not in it takes no clients now.
            now_s: Unix time, in seconds.
        """
        for broker, address in addresses.items():
            before = self._known.get(broker, address)
            self._known[broker] = address
            if before != address:
                self._moves[broker] = (before, address, now_s)

    def report(self, now_s: float) -> dict[str, MoveStatus]:
        """Broker -> its last move; none that is long ago."""
        return {
            broker: MoveStatus(before=before, address=address, at=round(at, 3))
            for broker, (before, address, at) in self._moves.items()
            if now_s - at < KEPT_S
        }


def moved(actors: Iterable[AnyMember]) -> list[MovedStatus]:
    """The last move of each broker, by all that brokers report, the latest first."""
    last: dict[str, MovedStatus] = {}
    for actor in actors:
        for broker, move in (actor.moves or {}).items() if isinstance(actor, BrokerMember) else ():
            if broker not in last or move.at > last[broker].at:
                last[broker] = MovedStatus(broker=broker, before=move.before, address=move.address, at=move.at)
    return sorted(last.values(), key=lambda move: -move.at)
