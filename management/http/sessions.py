"""Who has logged in: random ids, kept in memory, each for some hours."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

LASTS_S = 8 * 3600.0
MOST = 1000
ID_BYTES = 32


class Sessions:
    """The sessions of one process; they end with it.

    Args:
        clock: never goes back; seconds.
        lasts_s: so long one is good, from its login on.
        most: of so many the oldest ends when there is another one.
    """

    def __init__(self, clock: Callable[[], float], lasts_s: float = LASTS_S, most: int = MOST) -> None:
        self._clock = clock
        self._lasts_s = lasts_s
        self._most = most
        self._known: dict[bytes, tuple[str, float]] = {}  # of digests: how long a look takes tells nothing of an id

    def begin(self, name: str) -> str:
        """A new one, of somebody who calls himself that: its id."""
        self._forget()
        while len(self._known) >= self._most:
            del self._known[next(iter(self._known))]
        session = secrets.token_urlsafe(ID_BYTES)
        self._known[_digest(session)] = name, self._clock() + self._lasts_s
        return session

    def name(self, session: str) -> str | None:
        """Who has it; None: nobody, or no more."""
        found = self._known.get(_digest(session))
        return found[0] if found is not None and self._clock() < found[1] else None

    def end(self, session: str) -> None:
        """It is good no more."""
        self._known.pop(_digest(session), None)

    def _forget(self) -> None:
        now_s = self._clock()
        for key in [key for key, (_, until_s) in self._known.items() if until_s <= now_s]:
            del self._known[key]


def _digest(session: str) -> bytes:
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()
