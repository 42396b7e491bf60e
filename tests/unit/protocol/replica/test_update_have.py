"""A copy that begins again says what it has of its messages, and only what is new travels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import binary, dictionaries, integers, lists, sets
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.queue.ring import Ring
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.ranges import RangeSet, pairs
from mantamq.protocol.replica import catch_up as module
from mantamq.protocol.replica.body_cache import BodyCache, ranges_of
from mantamq.protocol.replica.catch_up import CatchUp
from mantamq.protocol.replica.update import Pace, Updater
from mantamq.protocol.wire.events import Enqueue, Entry, Purge, encode_event
from mantamq.protocol.wire.log_frames import Append, UpdateFront, UpdateHave, UpdateStart
from mantamq.protocol.wire.version import MINOR

from tests.unit.replica_outbox import KeptOutbox

ONE = (1, 7)
BODIES = [b"m%d" % number * 20_000 for number in range(1, 31)]


class Copy:
    """One queue's durable copy, without the rest of its hosted queue."""

    def __init__(self, voter: str, blank: bool = True) -> None:
        self.outbox = KeptOutbox()
        self.outbox.name, self.outbox.broker = f"{voter}.r0", voter
        self.keeper = Keeper("q#1", voter, 2, blank, ONE, ["b1", "b2", "b3"], stored=True)
        self.state = QueueState("q#1")
        self.catch_up = CatchUp(self.keeper, self.state, Pace(1 << 40), self.outbox)

    def enqueue(self, *bodies: bytes, commit: bool = True) -> None:
        """One more entry; what is committed is applied."""
        end = self.keeper.end
        event = Enqueue("c", [end + 1, end + 1], list(bodies))
        entry = Entry(ONE, end + 1, "x", 1, end + 1, encode_event(event))
        committed, refusal = self.keeper.append(
            Append(ONE, "q#1", end, ONE if end else (0, 0), end + commit, end, [entry])
        )
        assert refusal is None
        for one in committed:
            self.state.apply(event)
            assert one is entry


def carry(updater: Copy, updatee: Copy, most: int = 1000, lose: bool = False) -> int:
    """Give an update, and carry what is said; returns how many messages travelled. `lose`: all that is cut off."""
    if updatee.outbox.name not in updater.catch_up.given:
        updater.catch_up.give(updatee.outbox.name, MINOR)
    messages = 0
    for _ in range(most):
        said = [(updater, updatee, frame) for frame in sent(updater, updatee)]
        said += [(updatee, updater, frame) for frame in sent(updatee, updater)]
        if not updater.catch_up.next_chunks() and not said:
            break
        updatee.outbox.now_ms += 1000
        updatee.catch_up.may_serve()
        for source, target, frame in said:
            if isinstance(frame, UpdateStart):
                assert target.catch_up.begin(frame)
            elif isinstance(frame, UpdateFront):
                messages += len(frame.blobs)
                target.catch_up.take(source.outbox.name, frame)
            elif isinstance(frame, UpdateHave):
                target.catch_up.left_out(source.outbox.name, frame)
            else:
                target.catch_up.taken(source.outbox.name, frame)
    if lose:
        assert updatee.catch_up.peer_down(updater.outbox.name) and updatee.catch_up.begin_anew()
        updater.catch_up.given.clear()
    return messages


def sent(source: Copy, target: Copy) -> list[Any]:
    frames = [frame for peer, frame in source.outbox.sent if peer == target.outbox.name]
    source.outbox.sent.clear()
    return frames


def full(*bodies: bytes) -> Copy:
    copy = Copy("b2", blank=False)
    for body in bodies:
        copy.enqueue(body)
    return copy


def only_what_is_new_travels() -> None:
    """An update is cut off in the middle: the next updater sends the rest."""
    updater, updatee, other = full(*BODIES), Copy("b1"), full(*BODIES, b"new")
    first = carry(updater, updatee, most=12, lose=True)
    assert 12 <= first < 30
    second = carry(other, updatee)
    assert updatee.catch_up.may_apply()
    assert updatee.state.blobs == other.state.blobs
    # Two chunks are on their way before the updater hears what it may leave out.
    assert second <= 31 - first + 6, "what was here has travelled again"


def test_only_what_is_new_travels():
    only_what_is_new_travels()


def an_uncommitted_body_is_not_used() -> None:
    """The last message it holds is not committed, and becomes another one at that position."""
    updatee = Copy("b1")
    for body in BODIES[:3]:
        updatee.enqueue(body)
    updatee.enqueue(b"never committed", commit=False)
    updater = full(*BODIES[:3], b"committed there", *BODIES[4:])
    carry(updater, updatee)
    assert updatee.catch_up.may_apply()
    assert updatee.state.blobs == updater.state.blobs, "a body that was not committed is used"


def test_an_uncommitted_body_is_not_used():
    an_uncommitted_body_is_not_used()


def test_what_was_dequeued_meanwhile_is_nobodys():
    cache = BodyCache()
    cache.put({1: b"a", 2: b"", 5: b"e", 9: b"i"})
    assert list(cache.of([(1, 2), (5, 6)])) == [(1, 1), (5, 5)]
    assert cache.bodies == {1: b"a", 5: b"e", 9: b"i"}
    assert not cache.of([(2, 4), (10, 99)])
    assert not cache and not cache.bodies, "of no use to a later sync point either"


def test_a_word_about_another_update_changes_nothing():
    updater, updatee = full(*BODIES), Copy("b1")
    updater.catch_up.give("b1.r0", MINOR)
    for index, number in ((29, 1), (30, 2)):
        updater.catch_up.left_out("b1.r0", UpdateHave("q#1", index, [1, 30], number))
    updater.catch_up.left_out("b3.r0", UpdateHave("q#1", 30, [1, 30], 1))
    assert carry(updater, updatee) == 30


def test_a_copy_in_memory_begins_without_anything():
    copy = CatchUp(Keeper("q#1", "b1", 2, True, ONE), QueueState("q#1"), Pace(1 << 40), KeptOutbox())
    assert copy.cache is None


@given(dictionaries(integers(1, 60), binary(min_size=1, max_size=3)), lists(sets(integers(1, 60)), max_size=3))
def test_the_cache_has_what_was_put_in(bodies, looks):
    cache, left = BodyCache(), dict(bodies)
    cache.put(bodies)
    for look in looks:
        found = cache.of(pairs(ranges_of(sorted(look))))
        assert found == RangeSet(ranges_of(sorted(left.keys() & look)))
        left = left if found else {}
        assert cache.bodies == left and bool(cache) == bool(left)


class Counted(dict[int, bytes]):
    """Counts how often one is looked up."""

    asked = 0

    def __getitem__(self, position: int) -> bytes:
        self.asked += 1
        return super().__getitem__(position)

    def __contains__(self, position: object) -> bool:
        self.asked += 1
        return super().__contains__(position)

    def items(self):
        self.asked += len(self)
        return super().items()


def test_an_update_begins_without_a_look_at_each_message_that_is_here():
    updater, updatee = full(*BODIES), Copy("b1")
    updatee.catch_up.cache = BodyCache({number: BODIES[number - 1] for number in range(1, 29)})
    bodies = updatee.catch_up.cache.bodies = Counted(updatee.catch_up.cache.bodies)
    updater.catch_up.give("b1.r0", MINOR)
    (start,) = sent(updater, updatee)
    assert updatee.catch_up.begin(start)
    (have,) = [frame for frame in sent(updatee, updater) if isinstance(frame, UpdateHave)]
    assert have.ranges == [1, 28] and not bodies.asked, "of millions that is too long for one step"
    assert updatee.catch_up.found == (RangeSet([1, 28]), bodies)


@given(sets(integers(1, 80)), lists(sets(integers(1, 80)), max_size=3))
def test_an_updater_sends_what_is_not_left_out(live, had):
    state = QueueState("q#1")
    state.available.assign(ranges_of(sorted(live)))
    state.blobs = dict.fromkeys(live, b"b")
    start = UpdateStart("q#1", "b2.r0", "b1.r0", 5, ONE, 5, {}, {}, None, number=3)
    updater = Updater(state, start, None, DEFAULT)
    for ranges in had:
        updater.leave_out(UpdateHave("q#1", 5, ranges_of(sorted(ranges)), 3))
    chunk = updater.chunk()
    assert isinstance(chunk, UpdateFront) and chunk.last
    assert RangeSet(chunk.ranges) == RangeSet(ranges_of(sorted(live - set().union(*had))))


# ---- planted bugs


def test_a_cache_of_uncommitted_bodies_is_found(monkeypatch):
    keep = CatchUp._keep

    def all_it_holds(self):
        keep(self)
        for index, entry in self._keeper._log.items():
            self.cache.put({index: entry.event[entry.event.index(b"never") :]} if b"never" in entry.event else {})

    monkeypatch.setattr(CatchUp, "_keep", all_it_holds)
    with pytest.raises(AssertionError, match="not committed"):
        an_uncommitted_body_is_not_used()


def test_an_updatee_that_says_nothing_is_found(monkeypatch):
    monkeypatch.setattr(module, "UpdateHave", lambda *args: UpdateHave("q#1", -1, []))
    with pytest.raises(AssertionError, match="travelled again"):
        only_what_is_new_travels()


@pytest.mark.parametrize("kind", [False, True])
def test_of_a_queue_of_a_kind_nothing_is_left_out_that_is_consumed_meanwhile(kind: bool):
    """What follows the sync point is applied to all that was there then, and needs to know what that was."""
    state = QueueState("q#1")
    if kind:
        state.include(Ring(state, QueueSettings(max_count=9, overflow="ring")))
    state.apply(Enqueue("", [], [b"a", b"b", b"c"]))
    update = Updater(state, UpdateStart("q#1", "b1.r0", "b2.r0", 1, ONE, 1, {}, {}, None), None)
    state.apply(Purge(2))
    front = update.chunk()
    assert isinstance(front, UpdateFront) and front.last
    assert (front.ranges, front.blobs) == (([1, 3], [b"a", b"b", b"c"]) if kind else ([3, 3], [b"c"]))
