"""Space on the disk, and the reserve: what keeps a full disk from keeping what would free it (`durable.md` 6).

An ordered entry cannot be passed over: what stands behind it in its stream would wait for it for ever. So the store
writes whatever comes, and says early that it is pressed: then nothing new is ordered but what frees space, and what was
ordered before comes out of the reserve. Below half of that it is full, and its writers keep back records that bring
bodies, each with all that stands behind it in its stream, so that checkpoints, promises and accepts go on elsewhere.
"""

from __future__ import annotations

from ..wire.store_frames import Room


class Space:
    """Args:
    reserve_bytes: kept for what frees space, and for what was ordered already.
    """

    def __init__(self, reserve_bytes: int) -> None:
        self._reserve_bytes = reserve_bytes
        self.room = Room(0)

    @property
    def short(self) -> bool:
        return self.room.pressed

    def measure(self, free_bytes: int) -> bool:
        """So much is free; whether that must be told. What is begun ends only an eighth of the reserve later."""
        reserve, before = self._reserve_bytes, self.room
        margin = reserve // 8
        pressed = free_bytes < reserve + (margin if before.pressed else 0)
        full = free_bytes < reserve // 2 + (margin if before.full else 0)
        self.room = Room(free_bytes - reserve, pressed, full)
        return (pressed, full) != (before.pressed, before.full)
