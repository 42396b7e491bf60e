"""Observers of a sequencer are told of what it orders of its own accord, and can change nothing of it."""

from __future__ import annotations

from typing import Protocol


class SequencerObserver(Protocol):
    """Of one sequencer; the same observer serves no second one. It is told in the middle of a step: an exception of an
    observer is a defect of the process, like one of any rule."""

    def ordered(self, stream: str, event: bytes) -> None:
        """It has given an event, which no member has asked for, its place in a stream: not committed yet."""

    def duty_passed(self, before: str, now: str, silent_ms: int) -> None:
        """Another Ownership is on duty: the one before was silent for so long."""
