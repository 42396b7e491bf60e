"""Messages on their way to the alternate exchange: a large batch goes in pieces, one after the other, and what is set
aside behind it waits until the last of them has left: all come in the order in which they were set aside.

A piece is a function of the batch alone, and so is its name: a broker that finishes what another began asks for the
same pieces under the same names, and each is enqueued once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ..limits import DEFAULT, Limits
from ..queue.batches import NOBODY
from ..queue.origins import numbered
from ..queue.state import QueueState
from ..ranges import pairs
from ..wire.events import AnyEvent, DeadLetterDone, Moved
from ..wire.queue_frames import DeadLetter
from .targets import to_target

PIECES_FROM = 1 << 44
"""A piece's name is its batch's index plus its number times this: the first is called as its batch."""


Made = Callable[[QueueState, int, dict[int, bytes]], DeadLetter]
"""A queue, a piece's name, and its messages by their positions -> its frame."""


def piece_name(index: int, number: int) -> int:
    return index + number * PIECES_FROM


def piece(state: QueueState, index: int, number: int, most_bytes: int) -> tuple[dict[int, bytes], bool]:
    """The messages of piece `number`, from 0, of the batch that event `index` set aside, by their positions, of at most
    `most_bytes` (one message may be larger); and whether there are more pieces behind it."""
    _, ranges = state.batches[index]
    blobs: dict[int, bytes] = {}
    size = at = 0
    for first, last in pairs(ranges):
        for position in range(first, last + 1):
            blob = state.blobs[position]
            if state.deliveries.annotations:
                blob = state.deliveries.noted(position, blob)
            size += len(blob)
            if size > most_bytes and size > len(blob):
                if at == number:
                    return blobs, True
                at, size = at + 1, len(blob)
            if at == number:
                blobs[position] = blob
    return blobs, False


def to_alternate(state: QueueState, name: int, blobs: dict[int, bytes], key: str = "") -> DeadLetter:
    """A piece of what goes to the alternate by that key, "" for the queue's name."""
    deliveries = state.deliveries
    return DeadLetter(
        state.id,
        name,
        state.alternate or state.configured.letters,
        list(blobs.values()),
        *numbered(list(map(state.origins.of, blobs))),
        cause=state.batches.cause(name % PIECES_FROM),
        positions=list(blobs),
        counts=deliveries.column([(position, position) for position in blobs]) if deliveries else [],
        key=key,
    )


class DeadLetters:
    """One queue's batches of dead letters, or of messages that go on by themselves.

    Args, and attributes: frame: makes a piece's.
    """

    __slots__ = ("_back", "_in_pieces", "_most_bytes", "_sent", "_state", "_waiting", "frame")

    def __init__(self, state: QueueState, limits: Limits = DEFAULT, frame: Made = to_alternate) -> None:
        self.frame = frame
        self._most_bytes = limits.dead_letter_bytes
        self._state = state
        self._sent: dict[int, int] = {}  # batch -> the piece of it that is on its way
        self._in_pieces = 0  # the batch that has further pieces, 0 for none
        self._waiting: deque[int] = deque()  # batches behind that one
        self._back: dict[int, list[int]] = {}  # batch -> which of its moved messages nobody has taken, so far

    def begin(self, index: int) -> None:
        """Event `index` has set a batch aside that this broker sees to."""
        if index not in self._sent and index not in self._waiting:
            self._waiting.append(index)

    def restored(self, broker: str) -> None:
        """The state has come by an update or from a store, past events that set batches aside: those of this broker,
        those that are nobody's and those whose broker is out are seen to here, by others too perhaps. Whoever applied
        the event that put it out may be gone by now."""
        seen_to = {NOBODY, broker, *self._state.fence.absent}
        for index, (of, _) in self._state.batches.items():
            if index and of in seen_to:
                self.begin(index)

    def due(self) -> list[DeadLetter]:
        """All that is known to be committed is applied: the pieces to ask the broker for now, of the batches that wait,
        up to the first that has further pieces. Not before: of a batch that is done, as a later entry may say, an
        updater has sent no messages."""
        asked: list[DeadLetter] = []
        while self._waiting and not self._in_pieces:
            asked += self._piece(self._waiting.popleft(), 0)
        return asked

    def dead_lettered(self, name: int, back: Sequence[int] = ()) -> tuple[list[DeadLetter], int]:
        """A piece is enqueued, but for what is back: what to ask for next, and the batch that is wholly enqueued by it,
        0 for none."""
        number, index = divmod(name, PIECES_FROM)
        if self._sent.get(index) != number:
            return [], 0
        if back:
            self._back[index] = [*self._back.get(index, []), *back]
        asked: list[DeadLetter] = []
        if self._in_pieces == index:
            asked += self._piece(index, number + 1)
            asked += self.due()
        if index not in self._state.batches:
            del self._sent[index]
            self._back.pop(index, None)
        elif self._sent[index] == number:
            del self._sent[index]
            return asked, index
        return asked, 0

    def ending(self, index: int) -> AnyEvent:
        """What to say of a batch that is wholly enqueued."""
        back = self._back.pop(index, [])
        return Moved(index, back) if index in self._state.batches.moves.targets else DeadLetterDone(index)

    def _piece(self, index: int, number: int) -> list[DeadLetter]:
        state = self._state
        if index not in state.batches:  # another broker has seen to it
            self._in_pieces = 0
            return []
        self._sent[index] = number
        blobs, more = piece(state, index, number, self._most_bytes)
        self._in_pieces = index if more else 0
        if (target := state.batches.moves.targets.get(index)) is not None:
            return [to_target(state, piece_name(index, number), blobs, target)]
        return [self.frame(state, piece_name(index, number), blobs)]
