"""How one queue's copy comes to be whole, and how it helps another replica's: its status, the update under way to it,
and the updates it gives. One update by itself is in `update.py`."""

from __future__ import annotations

from ..errors import LocalError
from ..limits import DEFAULT, Limits
from ..log.keeper import Keeper
from ..log.pieces import Pieces, cut
from ..queue.snapshot import read_snapshot
from ..queue.state import QueueState
from ..ranges import RangeSet
from ..status.machines import UpdateStatus
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import ZERO
from ..wire.log_frames import Evicted, UpdateFront, UpdateHave, UpdatePiece, UpdateStart, UpdateTaken
from ..wire.version import KNOWS_MARKS
from .body_cache import BodyCache
from .outbox import QueueOutbox
from .status import MOVES, Status
from .update import Pace, Updatee, Updater

NO_MORE = -1
"""As the chunk that was taken: another updater is listened to."""


class CatchUp:
    """Args:
        pace: that of all updates to this process together.

    Attributes:
        status: where the copy stands.
        given: updates under way from here, by the updatee's peer name.
        cache: what a copy that begins again has of its messages; None: it begins without, its log being in memory only.
    """

    __slots__ = (
        "_answers", "_keeper", "_last", "_limits", "_outbox", "_paces", "_pieces", "_retry_ms", "_state",
        "_update", "_update_retry_ms", "_updates", "_whole_at", "cache", "given", "status",
    )  # fmt: skip

    def __init__(
        self,
        keeper: Keeper,
        state: QueueState,
        pace: Pace,
        outbox: QueueOutbox,
        timing: Timing = DEFAULT_TIMING,
        limits: Limits = DEFAULT,
    ) -> None:
        self._limits = limits
        self._update_retry_ms = timing.update_retry_ms
        self.status = Status.BLANK if keeper.blank else Status.JOINING if keeper.returning else Status.SERVING
        self.given: dict[str, Updater] = {}
        self.cache = BodyCache() if keeper.stored else None
        self._keeper = keeper
        self._state = state
        self._paces = pace, Pace(limits.update_queue_bytes_s)
        self._outbox = outbox
        self._updates = 0  # given from here
        self._pieces = Pieces(limits.depth)  # of a sync point under way to here
        self._update: Updatee | None = None  # under way to here
        self._answers: dict[str, tuple[UpdateTaken, int]] = {}  # updater -> its answer, and when it is due
        self._last: Updatee | None = None  # that one, or the one before
        self._whole_at = 0  # how far the stream had come when the last update was complete
        self._retry_ms = 0  # when a blank replica that hears of no update asks again

    @property
    def chunks(self) -> int:
        """How many chunks of the last update, pieces of its sync point among them, have come."""
        return self._last.chunk if self._last is not None else 0

    @property
    def whole(self) -> bool:
        """Whether the state has all messages that it speaks of. An update leaves out those that went while it was under
        way; until the entries are applied by which they went, the state counts fewer bytes than the queue ever had."""
        return self._update is None and self._state.index >= self._whole_at

    @property
    def found(self) -> tuple[RangeSet, dict[int, bytes]]:
        """The positions of those messages that the update under way has found here, and all that is here."""
        return (self._update.had, self._update.blobs) if self._update is not None else (RangeSet(), {})

    def _move(self, status: Status) -> None:
        if status not in MOVES[self.status]:
            raise LocalError(f"{self._state.id}: a copy that is {self.status.value} cannot become {status.value}")
        self.status = status

    # ---- as updatee

    def wait(self) -> None:
        """Give an updater `Timing.update_retry_ms` to begin."""
        self._retry_ms = self._outbox.now_ms + self._update_retry_ms
        self._outbox.set_timer(self._state.id, self._retry_ms)

    def piece(self, frame: UpdatePiece) -> UpdateStart | None:
        """Take a piece of an updater's sync point, and ask for more; returns the sync point once it is whole. Both the
        updater and the sequencer hear that there is progress.

        Raises:
            PeerError: the pieces are not what they say; the update is over, and another updater will be named.
        """
        if not self._keeper.blank:
            self._outbox.send(frame.updater, UpdateTaken(frame.stream, NO_MORE, frame.number))
            return None
        if frame.chunk == 1:
            self._drop_pieces(frame.updater)
        if not self._pieces.take(frame):
            return None
        taken = UpdateTaken(frame.stream, frame.chunk, frame.number)
        self._take(frame.updater, taken, len(frame.data))
        self._outbox.lead(taken)
        self.wait()
        return self._pieces.whole()

    def _drop_pieces(self, updater: str = "") -> None:
        """Listen to this updater, or to none: another one whose pieces were coming keeps the rest for nothing."""
        pieces = self._pieces
        if pieces.updater not in ("", updater):
            self._no_more(pieces)
        pieces.clear()

    def _no_more(self, of: Pieces | Updatee) -> None:
        """The updater of this may forget it."""
        self._answers.pop(of.updater, None)
        self._outbox.send(of.updater, UpdateTaken(self._state.id, NO_MORE, of.number))

    def replaced(self, frame: UpdateStart) -> bool:
        """Whether this is another sync point of the very updater of the update under way: the rest of that one will not
        come."""
        update = self._update
        return update is not None and update.updater == frame.updater and update.number != frame.number

    def begin(self, frame: UpdateStart, pieces: int = 0) -> bool:
        """Take an updater's sync point, which came in that many pieces; False: this keeper votes, or holds as much by
        another updater.

        Raises:
            PeerError: its snapshot is none, and nothing has changed here.
        """
        if not self._keeper.blank or frame.index <= self._keeper.end:
            return False
        snapshot = read_snapshot(frame.state)
        self._keep()
        self._move(Status.UPDATING)
        self._keeper.restore(frame)
        self._state.restore(snapshot)
        self._drop_pieces(frame.updater)
        if self._update is not None and self._update.updater != frame.updater:
            self._no_more(self._update)
        live = self._state.live()
        had = self.cache.of(live) if self.cache else RangeSet()
        self._update = self._last = Updatee(frame, live.count, self._outbox.now_ms, pieces, had, self.cache)
        if had:
            self._outbox.send(frame.updater, UpdateHave(self._state.id, frame.index, had.flat(), frame.number))
        return True

    def _keep(self) -> None:
        """Keep the messages that are here, as far as they are committed, while another update begins."""
        if self.cache is not None:
            self.cache.put(self._state.blobs)  # it has applied what is committed, and nothing else

    def take(self, peer: str, frame: UpdateFront) -> bool:
        """Take a chunk, and ask for more when its pace allows; whether all messages are here."""
        update, id = self._update, self._state.id
        if update is None or update.updater != peer or not update.take(frame):
            return False
        taken = UpdateTaken(id, update.chunk, update.number)
        self._take(peer, taken, sum(map(len, frame.blobs)), last=update.until >= 0)
        return update.until >= 0

    def _take(self, updater: str, taken: UpdateTaken, size: int, last: bool = False) -> None:
        """Answer so many bytes when the pace allows; behind the last chunk there is nothing to wait for."""
        now_ms = self._outbox.now_ms
        at_ms = max(pace.next(now_ms, size) for pace in self._paces)
        self._answers[updater] = taken, (now_ms if last else at_ms)
        self._answer()

    def _answer(self) -> None:
        """Send the answers that are due, and see to the others."""
        outbox = self._outbox
        for updater, (taken, at_ms) in list(self._answers.items()):
            if at_ms > outbox.now_ms:
                outbox.set_timer(self._state.id, at_ms)
            else:
                outbox.send(updater, taken)
                del self._answers[updater]

    def may_apply(self) -> bool:
        """Whether what is committed may be applied: not before the messages it speaks of are here."""
        if self.status is Status.UPDATING:
            return self._whole()
        self._has_log()
        return True

    def _has_log(self) -> bool:
        """Whether a copy that is not updating holds anything; a blank one, by a log that reaches back to its
        beginning."""
        if self.status is Status.BLANK and self._keeper.end:
            self._move(Status.JOINING)
        return self.status is not Status.BLANK

    def _whole(self) -> bool:
        """Whether the update has just become complete: all is here that was not dequeued by what is committed."""
        update = self._update
        if update is None or update.until < 0 or self._keeper.commit < update.until:
            return False
        self._state.fill(update.blobs)
        self._whole_at = update.until
        update.end(self._outbox.now_ms)
        if self.cache is not None:
            self.cache.clear()
        self._update = None
        self._move(Status.JOINING)
        return True

    def may_serve(self) -> bool:
        """Whether a copy that is not serving has its state, so that it may acknowledge and deliver; otherwise sees to
        what it waits for."""
        outbox, update, id = self._outbox, self._update, self._state.id
        if self._answers:
            self._answer()
        if update is not None:
            return False
        if self._has_log():
            return True
        if self._retry_ms and outbox.now_ms >= self._retry_ms:
            self.begin_anew()
        elif self._retry_ms:
            outbox.set_timer(id, self._retry_ms)
        return False

    def begin_anew(self) -> bool:
        """The update does not come: hold nothing again, and ask for another updater. False: this keeper votes already,
        and cannot forget what it holds; the process ends."""
        keeper, id = self._keeper, self._state.id
        if not keeper.blank:
            self._outbox.retire(f"{id}: its vote came back before its messages, and now its updater is gone")
            return False
        self._keep()
        if self.status is not Status.BLANK:
            self._move(Status.BLANK)
        self._update, self._whole_at = None, 0
        self._answers.clear()
        self._drop_pieces()
        keeper.restore(UpdateStart(id, "", "", 0, ZERO, 0, {}, {}, None))
        self._state.restore(QueueState(id).snapshot())
        self._state.fill({})
        self.wait()
        self._outbox.report_log(keeper.log_report())
        return True

    def joined(self) -> None:
        """The event of this incarnation is applied."""
        self._drop_pieces()
        if self.cache is not None:
            self.cache.clear()
        if self.status is not Status.SERVING:
            self._move(Status.SERVING)

    def fenced(self, inc: int) -> None:
        """This broker is out of the queue up to incarnation `inc`. If that is beyond this one, all of the broker is
        out; its other streams may never say so, because the sequencer has died."""
        outbox, id = self._outbox, self._state.id
        if inc > self._keeper.life:
            outbox.send(outbox.broker, Evicted(f"{outbox.broker} was evicted from {id}"))
        if inc >= self._keeper.life:
            outbox.retire(f"{outbox.broker} is out of {id}: another incarnation takes over")

    # ---- as updater

    def give(self, updatee: str, minor: int) -> None:
        """Begin an update at what is applied now, for a program of that minor version."""
        snapshot = self._state.snapshot()
        if minor < KNOWS_MARKS:
            snapshot = snapshot.for_minor_2()
        self._updates += 1
        start = self._keeper.update(self._outbox.name, updatee, snapshot, self._updates)
        pieces = cut(start, minor, self._limits.update_piece_bytes)
        if pieces is None:
            self._outbox.send(updatee, start)
        self.given[updatee] = Updater(self._state, start, pieces, self._limits)
        self._outbox.dirty[self._state.id] = None

    def taken(self, peer: str, frame: UpdateTaken) -> None:
        update = self.given.get(peer)
        if update is None or frame.number not in (update.number, 0):  # 0: a program before minor 3
            return
        update.taken = max(update.taken, frame.chunk)
        if frame.chunk == NO_MORE or (update.done and update.taken == update.sent):
            del self.given[peer]
        else:
            self._outbox.dirty[self._state.id] = None

    def left_out(self, peer: str, frame: UpdateHave) -> None:
        """An updatee has some of the messages of its update's sync point."""
        update = self.given.get(peer)
        if update is not None and (update.index, update.number) == (frame.index, frame.number):
            update.leave_out(frame)

    def next_chunks(self) -> bool:
        """Send a chunk to each updatee that can take one; whether there is more to send at once."""
        more = False
        for update in self.given.values():
            chunk = update.chunk()
            if chunk is not None:
                self._outbox.send(update.updatee, chunk)
                more = True
        return more

    # ---- both

    def peer_down(self, peer: str) -> bool:
        """A link to a replica is gone; whether it was the updater of an update under way to here. Of a sync point that
        was still coming nothing is known here yet: the sequencer names another updater."""
        self.given.pop(peer, None)
        self._answers.pop(peer, None)
        if self._pieces.updater == peer:
            self._pieces.clear()
            self._outbox.report_log(self._keeper.log_report())
        return self._update is not None and self._update.updater == peer

    def report(self) -> UpdateStatus | None:
        """The last update that came here."""
        return self._last.report() if self._last is not None else None
