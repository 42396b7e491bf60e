"""The operator who closes clients' connections, and writes down whose and why."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path

from mantamq.client import Connection, MantaError
from mantamq.client.errors import NotFound

from .journal import COMPLETED, FAILED, SENT, UNKNOWN, Journal

AT_ONCE = 1, 1, 2, 4


def reason(number: int) -> str:
    """No two are alike, some are longer than what is told of them, and now and then there is none."""
    if number % 4 == 3:
        return ""
    return f"repair {number}" + ", and of its disk" * (40 * (number % 4 == 2))


class Closer:
    """Of one round.

    Args:
        alone: nothing else happens in this run, so that every other end is one too many.
    """

    def __init__(self, path: Path, alone: bool) -> None:
        self._journal = Journal(path, "closer")
        self._alone = alone
        self._numbers = count(1)

    def close(self, connection: Connection, chance: random.Random) -> list[str]:
        """Close the connections of one or a few clients of the broker that this connection has; returns whose."""
        told = connection.statistics("connections")["connections"]
        mine = connection._conversation._client  # programs are not told theirs
        here = sorted(row["client"] for row in told if row["broker"] == connection.broker and row["client"] != mine)
        victims = chance.sample(here, min(len(here), chance.choice(AT_ONCE)))
        return [client for client in victims if self._close(connection, client)]

    def _close(self, connection: Connection, client: str) -> bool:
        why = reason(next(self._numbers))
        what = {"connection": client, "broker": connection.broker, "reason": why, "alone": self._alone}
        self._journal.write("closing", outcome=SENT, **what)
        outcome = UNKNOWN
        try:
            connection.close_connection(client, why)
            outcome = COMPLETED
        except NotFound:
            outcome = FAILED
        except MantaError:
            pass
        self._journal.write("closing", outcome=outcome, **what)
        return outcome == COMPLETED

    def done(self) -> None:
        self._journal.write("done")
        self._journal.close()
