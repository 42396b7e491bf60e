"""What a power cut leaves of what was not flushed: chosen by chance under a seed, for tests only.

A disk writes pages in any order, so each page that was not flushed is on it or not; the one it was writing may be torn,
sector by sector. Of names the same holds, but a file system keeps the order of those that have to do with each other: a
name that was given to a file and taken away again, or two names that one file had (`durable.md` 10).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from random import Random

PAGE_BYTES = 4096
SECTOR_BYTES = 512


class Aftermath:
    """One power cut.

    Args:
        random: what chance there is.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._chance = random.choice((0.0, 0.5, 0.5, 1.0))

    def keeps(self) -> bool:
        """Whether one thing that was not flushed is on the disk; in some cuts all is, in some nothing."""
        return self._random.random() < self._chance

    def page(self, older: Sequence[bytes], shown: bytes) -> bytes:
        """The content of a page on the disk: the one that was shown, or one it had since the last flush."""
        return shown if self.keeps() else self._random.choice(older)

    def torn(self, older: Sequence[bytes], shown: bytes) -> bytes:
        """The content of a page that was being written: some sectors of the one, some of the other."""
        old = self._random.choice(older)
        size = max(len(old), len(shown))
        both = (old.ljust(size, b"\0"), shown.ljust(size, b"\0"))
        return b"".join(
            self._random.choice(both)[at : at + SECTOR_BYTES] for at in range(0, size, SECTOR_BYTES)
        )  # fmt: skip

    def tears(self, pages: int) -> int:
        """Which of so many pages that were not flushed is torn; -1: none."""
        return self._random.randrange(pages) if pages and self._random.random() < 0.5 else -1

    def kept_changes(self, changes: Sequence[frozenset[Hashable]]) -> list[bool]:
        """Which changes of names are on the disk.

        Args:
            changes: of each, in their order, what it touches: names and files. One that touches what an earlier one
                does is kept only if that one is.
        """
        kept: list[bool] = []
        for number, touched in enumerate(changes):
            needs = all(kept[earlier] for earlier in range(number) if changes[earlier] & touched)
            kept.append(needs and self.keeps())
        return kept
