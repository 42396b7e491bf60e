"""When a process tells its broker how much memory it has: a machine that has nothing new to say says nothing."""

from __future__ import annotations

from .machine import Measured
from .wire.flow_frames import Resident

STEP_BYTES = 4 * 1024 * 1024
"""What is less than that is no news."""


class ResidentTeller:
    """Attributes: told_bytes: what the broker knows."""

    __slots__ = ("told_bytes",)

    def __init__(self) -> None:
        self.told_bytes = 0

    def news(self, input: Measured) -> Resident | None:
        """What the broker is to be told, if anything."""
        if abs(input.resident_bytes - self.told_bytes) < STEP_BYTES:
            return None
        self.told_bytes = input.resident_bytes
        return Resident(input.resident_bytes)
