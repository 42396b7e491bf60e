"""One direction between two processes: whether anything passes, how long it takes, and what was lost on it."""

from __future__ import annotations

import random
import zlib


class Way:
    """From `source` to `target`; frames on it keep their order.

    Attributes:
        down: what is sent is dropped, as a shell drops what has no link.
        epoch: how often it was cut: what was on its way before that is lost.
        last_us: when the last frame that was sent on it arrives.
        number: stands for its two ends in checksums.
    """

    __slots__ = ("_bits", "_slow", "down", "epoch", "last_us", "number")

    def __init__(self, source: str, target: str) -> None:
        self.down = False
        self.epoch = 0
        self.last_us = 0
        self.number = zlib.crc32(f"{source} {target}".encode())
        self._slow = 0  # one more than its largest usual delay, 0 until that is known
        self._bits = 0

    def cut(self) -> None:
        """Frames on their way are lost, and none passes until it is up again."""
        self.down = True
        self.epoch += 1

    def cut_off(self) -> None:
        """Frames on their way are lost."""
        self.epoch += 1

    def delay_us(self, rng: random.Random) -> int:
        """How long the next frame takes, as `10 + rng.randrange(slow)`, which checks its arguments each time."""
        slow = self._slow
        if not slow:
            slow = self._slow = rng.choice((50, 200, 200, 1000, 5000)) + 1
            self._bits = slow.bit_length()
        bits = self._bits
        delay = rng.getrandbits(bits)
        while delay >= slow:
            delay = rng.getrandbits(bits)
        if rng.random() < 0.01:
            delay += rng.randrange(30_000)
        return 10 + delay
