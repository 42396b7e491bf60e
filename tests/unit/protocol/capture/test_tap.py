"""The tap and those who tell it: each index of a stream once, in order, and what is missing is counted."""

from __future__ import annotations

import pytest
from mantamq.protocol.capture.fact_buffer import Reporter
from mantamq.protocol.capture.tap import TapMachine
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.machine import EVENTS, Flush, Kept, PeerDown, PeerUp, Received, SetTimer, Tick
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.capture_frames import (
    EnqueueFact,
    EventFact,
    Facts,
    FactsKept,
    FactsWanted,
    Observation,
    encode_fact,
)
from mantamq.protocol.wire.events import Enqueue, encode_event
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame

Q = "orders#1"


def fact(index: int) -> bytes:
    """Of an enqueue of ten messages."""
    return encode_fact(
        EnqueueFact(index, 1, 1000 * index, "c/1", 10 * index, 10 * index + 9, 10 * index, 10 * index + 9, 50)
    )


class World:
    """Tellers and a tap, with instant links that pass through the codec."""

    def __init__(self, *names: str, limits: Limits = DEFAULT) -> None:
        self.now_ms = 1000
        self.tellers = {name: Reporter(limits=limits) for name in names}
        self.tap = TapMachine()
        self.linked: set[str] = set()
        self.late: set[str] = set()
        self.on_their_way: list[tuple[str, object]] = []
        self.timer = 0
        self.sent: list[tuple[str, object]] = []
        for name in names:
            self.link(name)

    def link(self, name: str) -> None:
        self.linked.add(name)
        self.tellers[name].up()
        self.settle()

    def cut(self, name: str) -> None:
        self.linked.discard(name)
        self.tellers[name].down()
        self._tap(PeerDown(name))
        self.settle()

    def begin_anew(self, name: str) -> None:
        """A process of that name has come before the tap has noticed the end of the one before."""
        self.tellers[name] = Reporter()
        self._tap(PeerUp(name))
        self.link(name)

    def note(self, name: str, first: int, last: int, stream: str = Q, near: bool | None = None) -> None:
        teller = self.tellers[name]
        buffer = teller.buffers.get(stream) or teller.open(stream, first - 1)
        if near is not None:
            teller.near(stream, buffer, near)
        for index in range(first, last + 1):
            teller.note(stream, buffer, fact(index))

    def near(self, name: str, near: bool) -> None:
        teller = self.tellers[name]
        teller.near(Q, teller.buffers[Q], near)

    def _tap(self, *inputs: object) -> None:
        for input in [Tick(self.now_ms), *inputs, Flush()]:
            for effect in self.tap.step(input):  # type: ignore[arg-type]
                if isinstance(effect, SetTimer):
                    self.timer = effect.at_ms
                elif effect.peer in self.linked:  # type: ignore[union-attr]
                    frame = effect.frame  # type: ignore[union-attr]
                    self.sent.append((effect.peer, frame))  # type: ignore[union-attr]
                    (frame,) = FrameBuffer().feed(encode_frame(frame))
                    if effect.peer in self.late:  # type: ignore[union-attr]
                        self.on_their_way.append((effect.peer, frame))  # type: ignore[union-attr]
                    else:
                        self.tellers[effect.peer].heard(frame)  # type: ignore[union-attr]

    def arrive(self) -> None:
        """What the tap has sent to those who are late reaches them."""
        self.late.clear()
        coming, self.on_their_way = self.on_their_way, []
        for name, frame in coming:
            self.tellers[name].heard(frame)

    def settle(self, ms: int = 0) -> None:
        """Let everything gather and be told."""
        for _ in range(200):
            moved = False
            for name, teller in self.tellers.items():
                teller.flush(self.now_ms)
                for effect in teller.take():
                    assert effect.peer == EVENTS  # type: ignore[union-attr]
                    if name in self.linked:
                        moved = True
                        (frame,) = FrameBuffer().feed(encode_frame(effect.frame))  # type: ignore[union-attr]
                        self._tap(Received(name, frame))
            if not moved:
                if ms <= 0:
                    return
                self.now_ms += DEFAULT_TIMING.facts_gather_ms
                ms -= DEFAULT_TIMING.facts_gather_ms
                self._tap()
        raise AssertionError("it does not come to rest")

    def told(self, ms: int = 4 * DEFAULT_TIMING.facts_gather_ms) -> list[int]:
        """Indexes of `Q` that the tap has made rows of since the last look (a gap as its negative size)."""
        self.settle(ms)
        made, self.tap.rows = self.tap.rows, []
        found = []
        for stream, upto, rows in made:
            if stream == Q:
                found += [-row.value if row.kind == "dropped" else upto for row in rows]
        return found

    def kept(self, written: dict[str, int] | None = None) -> None:
        self._tap(Kept(written or {}))
        self.settle()


def test_what_is_told_becomes_rows():
    world = World("b1.r0")
    world.note("b1.r0", 1, 2)
    world.settle(100)
    first, _ = world.tap.rows
    (row,) = first.rows
    assert (first.stream, first.upto) == (Q, 1)
    assert (row.kind, row.queue, row.seq, row.term, row.time_us) == ("enqueue", Q, 1, 1, 1000)
    assert (row.position_first, row.position_last, row.count, row.bytes) == (10, 19, 10, 50)
    assert (row.client, row.number_first, row.number_last, row.effective) == ("c/1", 10, 19, True)


def test_facts_gather_before_they_are_told():
    world = World("b1.r0")
    teller = world.tellers["b1.r0"]
    world.note("b1.r0", 1, 1)
    assert world.told() == [1]
    world.note("b1.r0", 2, DEFAULT.facts_gathered)
    assert teller.flush(world.now_ms) == world.now_ms + DEFAULT_TIMING.facts_gather_ms
    assert not teller.effects
    world.note("b1.r0", DEFAULT.facts_gathered + 1, DEFAULT.facts_gathered + 1)
    assert teller.flush(world.now_ms) == 0
    assert len(teller.effects) == 1
    assert teller.flush(world.now_ms) == 0


def test_one_keeper_tells_and_another_goes_on_without_gap_or_overlap():
    world = World("b1.r0", "b2.r0", "b3.r0")
    for name in world.tellers:
        world.note(name, 1, 5)
    assert world.told() == [1, 2, 3, 4, 5]
    for name in world.tellers:
        world.note(name, 6, 8)
    world.cut(world.tap.streams[Q].teller)  # with what it had not told
    assert world.told() == [6, 7, 8]
    for name in world.tellers:
        world.note(name, 9, 9)
    world.cut(world.tap.streams[Q].teller)
    assert world.told() == [9]
    assert world.tap.dropped == 0


def test_a_teller_that_begins_anew_before_its_end_is_noticed_is_asked_again():
    world = World("b1.r0")
    world.note("b1.r0", 1, 3)
    assert world.told() == [1, 2, 3]
    world.begin_anew("b1.r0")
    world.note("b1.r0", 1, 5)  # from the log that it had
    assert world.told() == [4, 5]


def test_a_teller_that_is_behind_is_no_gap():
    world = World("b1.r0", "b2.r0")
    world.note("b1.r0", 1, 9)
    world.note("b2.r0", 1, 4)
    assert world.told() == [*range(1, 10)]
    assert world.tap.streams[Q].teller == "b1.r0"
    world.cut("b1.r0")
    assert world.told() == []
    world.note("b2.r0", 5, 11)
    assert world.told() == [10, 11]


def test_the_one_near_the_consumers_is_asked():
    world = World("b1.r0", "b2.r0", "b3.r0")
    for name in world.tellers:
        world.note(name, 1, 3)
    assert world.told() == [1, 2, 3]
    world.note("b1.r0", 4, 5, near=True)
    assert world.told() == [4, 5]
    assert world.tap.streams[Q].teller == "b1.r0"
    world.note("b2.r0", 4, 6, near=True)  # no better than the one who tells
    assert world.told() == []
    world.note("b1.r0", 6, 6, near=False)
    world.note("b2.r0", 7, 7, near=True)
    assert world.told() == [6, 7]
    assert world.tap.streams[Q].teller == "b2.r0"


def test_one_who_is_to_stop_does_not_tell_what_has_gathered_either():
    world = World("b1.r0")
    teller = world.tellers["b1.r0"]
    world.note("b1.r0", 1, 2)
    assert world.told() == [1, 2]
    world.note("b1.r0", 3, 3)
    assert teller.flush(world.now_ms) > world.now_ms
    teller.heard(FactsWanted(Q, -1))
    world.note("b1.r0", 4, 4)
    teller.flush(world.now_ms + DEFAULT_TIMING.facts_gather_ms)
    assert teller.take() == []
    teller.heard(FactsWanted(Q, 2))
    world.settle(100)
    assert world.told() == [3, 4]


def test_what_a_teller_says_before_it_hears_that_it_is_asked_again_is_no_gap():
    world = World("b1.r0", "b2.r0")
    world.cut("b2.r0")
    for name in world.tellers:
        world.note(name, 1, 3)
    assert world.told() == [1, 2, 3]
    world.late.add("b1.r0")
    world.link("b2.r0")
    world.near("b2.r0", True)
    assert world.told() == []
    assert world.tap.streams[Q].teller == "b2.r0"
    world.note("b1.r0", 4, 6)
    assert world.told() == []  # passed over: b2 is asked, which is behind
    world.near("b2.r0", False)
    world.near("b1.r0", True)
    world.settle()
    assert world.tap.streams[Q].teller == "b1.r0"
    world.note("b1.r0", 7, 9)
    assert world.told() == []  # b1 goes on behind 6
    world.arrive()
    assert world.told() == [*range(4, 10)]
    assert world.tap.dropped == 0


def test_a_gap_of_a_source_that_does_not_say_where_it_goes_on_is_one():
    world = World("b1.r0")
    world.note("b1.r0", 1, 3)
    assert world.told() == [1, 2, 3]
    world._tap(Received("b1.r0", Facts(Q, 6, [fact(6)])))  # of a source before minor version 10
    assert world.told() == [-2, 6]


def test_a_new_tap_goes_on_where_the_old_one_had_written():
    world = World("b1.r0", "b2.r0")
    for name in world.tellers:
        world.note(name, 1, 6)
    assert world.told() == [1, 2, 3, 4, 5, 6]
    world.kept({Q: 4})
    world.tap = TapMachine({Q: 4})
    for name in world.tellers:
        world.cut(name)
        world.note(name, 7, 7)
    for name in world.tellers:
        world.link(name)
    assert world.told() == [5, 6, 7]
    assert world.tap.dropped == 0


def test_what_is_written_is_forgotten_by_all():
    world = World("b1.r0", "b2.r0")
    for name in world.tellers:
        world.note(name, 1, 6)
    world.told()
    world.kept({Q: 5})
    assert {teller.kept for teller in world.tellers.values()} == {1}
    # A tap that knows nothing of it finds a gap, and says so, after a while.
    world.tap = TapMachine()
    for name in world.tellers:
        world.cut(name)
        world.link(name)
    assert world.told() == []
    assert world.timer == world.tap.streams[Q].since_ms + DEFAULT_TIMING.tap_grace_ms
    assert world.told(DEFAULT_TIMING.tap_grace_ms + 100) == [-5, 6]
    assert world.tap.dropped == 5
    assert world.tap.report().untold == []


def test_nobody_waits_long_for_the_beginning_but_long_enough():
    world = World("b1.r0", "b2.r0")
    world.cut("b2.r0")
    world.note("b1.r0", 4, 8)  # brought up to date by a snapshot: the beginning is not there
    world.note("b2.r0", 1, 8)
    assert world.told(DEFAULT_TIMING.tap_grace_ms // 2) == []
    world.link("b2.r0")
    assert world.told() == [*range(1, 9)]
    assert world.tap.dropped == 0


def test_a_tap_that_does_not_come_after_gets_no_more_than_its_window():
    world = World("b1.r0", limits=Limits(facts_window=10))
    world.note("b1.r0", 1, 25)
    assert world.told() == [*range(1, 11)]
    world.kept()
    assert world.told() == [*range(11, 21)]
    world.kept()
    assert world.told() == [*range(21, 26)]


def test_what_is_too_much_to_keep_is_dropped_and_counted():
    world = World("b1.r0", limits=Limits(facts_window=10, facts_kept=20))
    world.note("b1.r0", 1, 10)
    assert world.told() == [*range(1, 11)]
    world.note("b1.r0", 11, 100)
    teller = world.tellers["b1.r0"]
    assert (teller.kept, teller.dropped) == (20, 80)
    world.kept()
    assert world.told() == [-70, *range(81, 91)]
    assert world.tap.dropped == 70


def test_a_dropped_row_says_what_is_missing_and_where():
    world = World("b2.r1")
    world.tap = TapMachine({Q: 3})
    world.cut("b2.r1")
    world.note("b2.r1", 9, 9)
    world.link("b2.r1")
    world.settle(DEFAULT_TIMING.tap_grace_ms + 100)
    gap, nine = world.tap.rows
    (row,) = gap.rows
    assert (gap.upto, nine.upto) == (8, 9)
    assert (row.kind, row.queue, row.value, row.broker, row.detail) == ("dropped", Q, 5, "b2", Q)
    assert (row.seq, row.part, row.time_us) == (9, -1, 9000)


def test_a_busy_stream_does_not_push_out_a_quiet_one():
    world = World("b1.r0", limits=Limits(facts_kept=20))
    world.cut("b1.r0")
    world.note("b1.r0", 1, 5, "quiet#2")
    world.note("b1.r0", 1, 100)
    world.link("b1.r0")
    world.settle(100)
    assert [made.upto for made in world.tap.rows if made.stream == "quiet#2"] == [1, 2, 3, 4, 5]


def test_a_stream_that_is_over_is_told_to_its_end_and_then_forgotten():
    world = World("b1.r0", "b2.r0")
    for name, teller in world.tellers.items():
        world.note(name, 1, 3)
        teller.close(Q)
    assert world.told() == [1, 2, 3]
    world.kept({Q: 3})
    assert [teller.buffers for teller in world.tellers.values()] == [{}, {}]


def test_a_buffer_that_begins_anew_is_asked_again():
    world = World("b1.r0")
    world.note("b1.r0", 1, 3)
    assert world.told() == [1, 2, 3]
    teller = world.tellers["b1.r0"]
    buffer = teller.open(Q, 7)  # an update has leapt over what was in between
    teller.note(Q, buffer, fact(8))
    assert world.told(DEFAULT_TIMING.tap_grace_ms + 200) == [-4, 8]
    assert teller.kept == 1


def test_seen_goes_to_the_teller_and_kept_to_everybody():
    world = World("b1.r0", "b2.r0")
    for name in world.tellers:
        world.note(name, 1, 3)
    world.told()
    teller = world.tap.streams[Q].teller
    world.sent.clear()
    world.kept()
    assert world.sent == [(teller, FactsKept({Q: 3}, {}))]
    world.sent.clear()
    world.kept({Q: 3})
    assert dict(world.sent) == {"b1.r0": FactsKept({}, {Q: 3}), "b2.r0": FactsKept({}, {Q: 3})}  # type: ignore[comparison-overlap]
    world.sent.clear()
    world.kept({Q: 3})
    assert world.sent == []


@pytest.mark.parametrize(
    ("data", "kinds"),
    [
        (EventFact(1, 1, 1, encode_event(Enqueue("c", [1, 1], [])), False), ["enqueue"]),
        (EventFact(1, 1, 1, b"\x92\x7f\x01"), []),  # an event of a newer program
        (EventFact(1, 1, 1, b"\xc1"), []),
        (Observation(1, 1, 1, "connect", "b1", client="c"), ["connect"]),
        (Observation(1, 1, 1, "levitate", "b1"), []),
    ],
)
def test_every_fact_has_its_rows(data, kinds):
    world = World("b1.r0")
    teller = world.tellers["b1.r0"]
    teller.note(Q, teller.open(Q, 0), encode_fact(data))
    world.settle(100)
    (made,) = world.tap.rows
    assert [row.kind for row in made.rows] == kinds
    assert made.upto == 1


def test_what_comes_twice_or_from_one_who_was_not_asked_is_passed_over():
    world = World("b1.r0", "b2.r0")
    for name in world.tellers:
        world.note(name, 1, 3)
    assert world.told() == [1, 2, 3]
    teller = world.tap.streams[Q].teller
    (other,) = world.tellers.keys() - {teller}
    world._tap(Received(other, Facts(Q, 4, [fact(4)])), Received(other, Facts(Q, 9, [fact(9)])))
    assert world.told() == []
    world._tap(Received(teller, Facts(Q, 2, [fact(2), fact(3), fact(4)])), Received(teller, Facts(Q, 1, [fact(1)])))
    assert world.told() == [4]
    assert world.tap.dropped == 0


def test_nothing_is_told_twice():
    world = World("b1.r0")
    teller = world.tellers["b1.r0"]
    world.note("b1.r0", 1, 2)
    assert world.told() == [1, 2]
    world.note("b1.r0", 3, 3)
    assert teller.flush(world.now_ms) > world.now_ms  # one fact waits for more, as the first ones did
    assert teller.flush(world.now_ms + DEFAULT_TIMING.facts_gather_ms) == 0
    (effect,) = teller.take()
    assert effect.frame == Facts(Q, 3, [fact(3)], after=2)  # type: ignore[union-attr]


def test_a_full_batch_leaves_the_next_one_to_gather():
    world = World("b1.r0")
    teller = world.tellers["b1.r0"]
    world.note("b1.r0", 1, 1)
    world.told()
    world.note("b1.r0", 2, 1 + DEFAULT.facts_gathered)
    assert teller.flush(world.now_ms) == 0
    world.note("b1.r0", 2 + DEFAULT.facts_gathered, 2 + DEFAULT.facts_gathered)
    assert teller.flush(world.now_ms) == world.now_ms + DEFAULT_TIMING.facts_gather_ms


def test_what_the_tap_has_seen_is_not_counted_as_dropped():
    world = World("b1.r0", limits=Limits(facts_kept=20))
    world.note("b1.r0", 1, 10)
    assert world.told() == [*range(1, 11)]
    world.kept()
    world.note("b1.r0", 11, 25)
    assert (world.tellers["b1.r0"].kept, world.tellers["b1.r0"].dropped) == (20, 0)
    assert world.told() == [*range(11, 26)]


def test_when_all_lack_the_beginning_the_one_who_lacks_least_is_asked():
    world = World("b1.r0", "b2.r0", "b3.r0")
    for name, first in (("b1.r0", 5), ("b2.r0", 3), ("b3.r0", 4)):
        world.note(name, first, 6)
    assert world.told(DEFAULT_TIMING.tap_grace_ms + 100) == [-2, 3, 4, 5, 6]
