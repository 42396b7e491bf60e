"""Rejected messages on their way to the alternate exchange: a large batch goes in pieces, one after the other, and what
is rejected behind it waits until the last of them has left: all come in the order in which they were rejected.

A piece is a function of the batch alone, and so is its name: whoever finishes what another began asks for the same
pieces under the same names, and each is enqueued once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..queue.state import QueueState
from ..ranges import pairs
from ..wire.events import Buried
from ..wire.queue_frames import DeadLetter, DeadLettered
from .hosted_queue import HostedQueue

if TYPE_CHECKING:
    from .machine import ReplicaMachine

PIECE_BYTES = 8 * 1024 * 1024
"""A piece has no more message bytes than this (one message may be larger)."""
PIECES_FROM = 1 << 44
"""A piece's name is its batch's index plus its number times this: the first is called as its batch."""


def piece_name(index: int, number: int) -> int:
    return index + number * PIECES_FROM


def piece(state: QueueState, index: int, number: int) -> tuple[list[bytes], bool]:
    """The messages of piece `number`, from 0, of the batch that event `index` rejected; and whether there are more
    pieces behind it."""
    _, ranges = state.batches[index]
    blobs: list[bytes] = []
    size = at = 0
    for first, last in pairs(ranges):
        for position in range(first, last + 1):
            blob = state.blobs[position]
            size += len(blob)
            if size > PIECE_BYTES and size > len(blob):
                if at == number:
                    return blobs, True
                at, size = at + 1, len(blob)
            if at == number:
                blobs.append(blob)
    return blobs, False


class DeadLetters:
    """Of one replica."""

    def __init__(self, machine: ReplicaMachine) -> None:
        self.machine = machine

    def bury(self, hosted: HostedQueue, index: int) -> None:
        """Ask for copies of the batch that event `index` rejected; of a large one piece by piece."""
        if index in hosted.buried or index in hosted.unburied:
            return
        hosted.unburied.append(index)
        self._next(hosted)

    def _next(self, hosted: HostedQueue) -> None:
        """Ask for what waits, as long as nothing before it has further pieces."""
        while hosted.unburied and not hosted.in_pieces:
            self._bury_piece(hosted, hosted.unburied.popleft(), 0)

    def _bury_piece(self, hosted: HostedQueue, index: int, number: int) -> None:
        state = hosted.state
        if index not in state.batches:  # another has seen to it
            hosted.in_pieces = 0
            return
        hosted.buried[index] = number
        blobs, more = piece(state, index, number)
        hosted.in_pieces = index if more else 0
        self.machine.send(self.machine.broker, DeadLetter(state.id, piece_name(index, number), state.alternate, blobs))

    def interred(self, frame: DeadLettered) -> None:
        hosted = self.machine.queues.get(frame.queue)
        number, index = divmod(frame.id, PIECES_FROM)
        if hosted is None or hosted.buried.get(index) != number:
            return
        if hosted.in_pieces == index:
            self._bury_piece(hosted, index, number + 1)
            self._next(hosted)
        if index not in hosted.state.batches:
            del hosted.buried[index]
        elif hosted.buried[index] == number:
            del hosted.buried[index]
            self.machine.submit(hosted, Buried(index), None)
