"""How many tokens one address may guess: a bound on wrong ones, each minute.

The same wrong token once more is no further guess: a program that was told a wrong one, and asks each second, keeps
nobody out who is at the same address.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

GUESSES = 20
WITHIN_S = 60.0
ADDRESSES = 1000
_DIGEST_BYTES = 8


class WrongTokens:
    """The wrong tokens of the last minute.

    Args:
        clock: never goes back; seconds.
        guesses: after so many different ones within `within_s`, an address waits until they are over.
        addresses: of so many the one that has guessed first is forgotten when there is another one.
    """

    def __init__(
        self, clock: Callable[[], float], guesses: int = GUESSES, within_s: float = WITHIN_S, addresses: int = ADDRESSES
    ) -> None:
        self._clock = clock
        self._guesses = guesses
        self._within_s = within_s
        self._addresses = addresses
        self._key = secrets.token_bytes(16)
        self._known: dict[str, tuple[float, set[bytes]]] = {}  # address -> until when its guesses count, and digests

    def wait_s(self, address: str) -> float:
        """How long an address has to wait; 0: it may present a token."""
        until_s, wrong = self._known.get(address, (0.0, ()))
        return max(0.0, until_s - self._clock()) if len(wrong) >= self._guesses else 0.0

    def note(self, address: str, token: bytes) -> None:
        """An address has presented a wrong token."""
        now_s = self._clock()
        until_s, wrong = self._known.get(address, (0.0, set[bytes]()))
        if until_s <= now_s:
            self._known.pop(address, None)
            while len(self._known) >= self._addresses:
                del self._known[next(iter(self._known))]
            wrong = set[bytes]()
            self._known[address] = now_s + self._within_s, wrong
        if len(wrong) < self._guesses:
            wrong.add(hashlib.blake2b(token, digest_size=_DIGEST_BYTES, key=self._key).digest())
