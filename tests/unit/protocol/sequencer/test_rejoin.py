"""How a keeper without its log gets its vote back, and who brings it up to date."""

from __future__ import annotations

from typing import Any

import pytest
from made_up_logs import ONE
from mantamq.protocol.machine import PeerDown, Received, Send, Tick
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.sequencer.stream import Progress, Stream
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import CLUSTER, ZERO
from mantamq.protocol.wire.log_frames import Ack, Evicted, LogReport, Update, UpdatePiece, UpdateTaken
from sequencer_in_memory import MEMBERS


def test_a_committed_rejoin_gives_the_vote_whoever_is_left():
    machine = SequencerMachine(7, ["b1", "b2", "b3"])
    stream = Stream("q#1", machine.order.members)
    stream.keepers["b1"] = back = Progress("b1.r1", 2, 4, False)
    back.rejoins_by(4)
    machine.rejoins.vote(stream, "b1", back)
    assert not back.voting
    stream.commit = 4
    machine.rejoins.vote(stream, "b1", back)
    assert back.voting


def test_who_comes_back_behind_its_committed_rejoin_puts_its_older_incarnation_out():
    """Found by trying all orders: it reported again, from an update that had begun before its `Rejoin`."""
    machine = SequencerMachine(7, ["b1", "b2", "b3"])
    for name in ("b1", "b2", "b3"):
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO, log_inc=1)))
    machine.step(PeerDown("b1"))
    again = LogReport("q#1", "b1", 0, ZERO, log_inc=2, blank=True)
    machine.step(Received("b1.r1", again))
    stream = machine.order.streams["q#1"]
    machine.step(Received("b1.r1", Ack(machine.order.ballot, "q#1", "b1", stream.end, 0)))
    assert stream.keepers["b1"].rejoin == stream.end
    machine.step(Received("b1.r1", again))
    for name in ("b2", "b3"):
        machine.step(Received(name, Ack(machine.order.ballot, "q#1", name, stream.end, 0)))
    machine.step(Received("b1.r1", again))
    assert stream.keepers["b1"].voting
    machine.step(PeerDown("b1.r1"))
    told = machine.step(Received("b1", LogReport("q#1", "b1", 0, ZERO, log_inc=1)))
    assert [type(effect.frame) for effect in told if isinstance(effect, Send)] == [Evicted]
    assert "b1" not in stream.keepers


def test_an_update_of_which_nothing_is_seen_is_ordered_again():
    machine = SequencerMachine(7, ["b1", "b2"])
    for name in ("b1", "b2"):
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    machine.order.streams["q#1"].base = 1  # all hold it, so it is forgotten
    machine.order.streams["q#1"].keepers["b1"].sent_commit = 1
    back = LogReport("q#1", "b2", 0, ZERO, log_inc=2, blank=True)
    updates = [effect.frame for effect in machine.step(Received("b2", back)) if isinstance(effect, Send)]
    assert updates == [Update("q#1", "b2")]
    machine.step(Tick(DEFAULT_TIMING.update_retry_ms - 1))
    machine.rejoins.remind()
    assert machine.outbox.effects == []
    machine.step(Tick(DEFAULT_TIMING.update_retry_ms))
    machine.rejoins.remind()
    assert machine.outbox.effects == [Send("b1", Update("q#1", "b2"))]


@pytest.mark.parametrize("stream", ["q#1", CLUSTER])
def test_no_other_updater_is_named_while_pieces_come(stream):
    """A replica tells of the pieces it takes; the wiring's pass through here."""
    machine = SequencerMachine(7, ["b1", "b2"])
    for name in ("b1", "b2"):
        machine.step(Received(name, LogReport(stream, name, 0, ZERO)))
    machine.order.streams[stream].base = 1
    machine.order.streams[stream].keepers["b1"].sent_commit = 1
    back = LogReport(stream, "b2", 0, ZERO, log_inc=2, blank=True, minor=3)
    updates = [effect.frame for effect in machine.step(Received("b2", back)) if isinstance(effect, Send)]
    assert updates == [Update(stream, "b2", 3)]
    half_ms = DEFAULT_TIMING.update_retry_ms // 2
    machine.outbox.now_ms = half_ms
    if stream == CLUSTER:
        piece = UpdatePiece(stream, "b1", "b2", 1, 1, 9, 9, b"piece")
        assert machine.step(Received("b1", piece)) == [Send("b2", piece)]
    else:
        assert machine.step(Received("b2", UpdateTaken(stream, 1, 1))) == []
    machine.outbox.now_ms = 2 * half_ms
    machine.rejoins.remind()
    assert machine.outbox.effects == []
    machine.outbox.now_ms = 3 * half_ms
    machine.rejoins.remind()
    assert machine.outbox.effects == [Send("b1", Update(stream, "b2", 3))]


def test_an_updater_knows_that_what_the_log_no_longer_has_is_committed():
    machine = SequencerMachine(7, MEMBERS)
    for name in MEMBERS:
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    stream = machine.order.streams["q#1"]
    stream.base = stream.commit = 1
    machine.step(Received("b3", LogReport("q#1", "b3", 0, ZERO, log_inc=2, blank=True)))
    assert machine.outbox.effects == [], "its sync point would be too early to go on from"
    stream.keepers["b2"].sent_commit = 1
    machine.rejoins.remind()  # at the next beat
    assert machine.outbox.effects == [Send("b2", Update("q#1", "b3"))]


def test_an_updater_that_is_gone_is_replaced_at_once():
    machine = SequencerMachine(7, MEMBERS)
    for name in MEMBERS:
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    stream = machine.order.streams["q#1"]
    stream.base = stream.commit = stream.keepers["b1"].sent_commit = stream.keepers["b2"].sent_commit = 1
    effects = machine.step(Received("b3", LogReport("q#1", "b3", 0, ZERO, log_inc=2, blank=True)))
    (first,) = [effect.peer for effect in effects if isinstance(effect, Send) and isinstance(effect.frame, Update)]
    machine.rejoins.remind()
    assert machine.outbox.effects == []
    machine.step(PeerDown(first))
    machine.rejoins.remind()
    (second,) = [effect.peer for effect in machine.outbox.effects if isinstance(effect, Send)]
    assert {first, second} == {"b1", "b2"}


def test_who_is_too_far_behind_stays_while_the_others_are_no_majority():
    machine = SequencerMachine(7, MEMBERS)
    machine.step(Received("b1", LogReport("q#1", "b1", 0, ZERO)))
    stream = machine.order.streams["q#1"]
    stream.voters, stream.base = list(MEMBERS), 1  # b2 was evicted by an earlier sequencer, and b3 is not here now
    late = LogReport("q#1", "b2", 0, ZERO)

    def evicted(effects: list[Any]) -> list[str]:
        return [e.peer for e in effects if isinstance(e, Send) and isinstance(e.frame, Evicted)]

    assert evicted(machine.step(Received("b2", late))) == []
    machine.keepers.hear_again()
    assert machine.outbox.effects == [] and "b2" not in stream.keepers
    machine.step(Received("b3", LogReport("q#1", "b3", 1, ONE)))
    machine.keepers.hear_again()
    assert evicted(machine.outbox.effects) == ["b2"]


def test_updaters_take_turns_for_each_updatee():
    """Somebody else who asks in vain does not make it always the same one; and who is about to vote cannot give any."""
    machine = SequencerMachine(7, ["b1", "b2", "b3", "b4", "b5"])
    for name in machine.order.members:
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    stream = machine.order.streams["q#1"]
    stream.base = stream.commit = 1
    for name in ("b1", "b2", "b3"):
        stream.keepers[name].sent_commit = 1
    stream.keepers["b3"].rejoin = 2
    turns: dict[str, list[str]] = {"b4": [], "b5": []}
    for _ in range(4):
        for name, turn in turns.items():
            machine.outbox.effects.clear()
            stream.keepers[name].voting = False
            machine.rejoins.update(stream, stream.keepers[name])
            turn += [effect.peer for effect in machine.outbox.effects if isinstance(effect, Send)]
    assert [sorted(set(turn)) for turn in turns.values()] == [["b1", "b2"]] * 2


def test_one_of_two_who_is_too_far_behind_comes_back_by_the_other():
    machine = SequencerMachine(7, ["b1", "b2"])
    machine.step(Received("b1", LogReport("q#1", "b1", 0, ZERO)))
    stream = machine.order.streams["q#1"]
    stream.voters, stream.base = ["b1", "b2"], 1
    effects = machine.step(Received("b2", LogReport("q#1", "b2", 0, ZERO)))
    assert [e.peer for e in effects if isinstance(e, Send) and isinstance(e.frame, Evicted)] == ["b2"]
