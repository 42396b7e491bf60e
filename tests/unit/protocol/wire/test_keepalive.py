"""The decision of a heartbeat, in ticks."""

from __future__ import annotations

from itertools import pairwise

from mantamq.protocol.wire.keepalive import TICKS, Keepalive, Verdict


def ticks_until_lost(beat: Keepalive, most: int = 1000) -> int:
    for tick in range(1, most):
        if beat.tick() is Verdict.LOST:
            return tick
    raise AssertionError("it is never lost")


def test_silence_of_two_heartbeats_is_a_loss():
    beat = Keepalive(300)
    assert beat.tick_s * TICKS == 0.3
    beat.heard = True
    beat.tick()
    # Heard just before the tick or a whole tick before it: between 5 and 6 ticks, never more than two heartbeats.
    assert ticks_until_lost(beat) == 5


def test_patience_is_longer_than_two_heartbeats_or_does_not_count():
    assert ticks_until_lost(Keepalive(100, 1000)) == 29
    assert ticks_until_lost(Keepalive(100, 50)) == 5


def test_who_is_heard_in_every_heartbeat_is_never_lost():
    beat = Keepalive(500)
    for tick in range(300):
        beat.heard = tick % TICKS == 0
        assert beat.tick() is not Verdict.LOST


def test_a_side_that_says_nothing_pings_within_every_heartbeat():
    beat = Keepalive(500)
    verdicts = []
    for _ in range(30):
        beat.heard = True
        verdicts.append(beat.tick())
    pings = [i for i, verdict in enumerate(verdicts) if verdict is Verdict.PING]
    assert len(pings) == 15 and pings[0] < TICKS
    assert all(b - a < TICKS for a, b in pairwise(pings))


def test_a_side_that_speaks_anyway_pings_only_when_the_other_is_silent():
    beat = Keepalive(500)
    for _ in range(30):
        beat.heard = beat.said = True
        assert beat.tick() is Verdict.FINE
    verdicts = []
    for _ in range(TICKS):
        beat.said = True
        verdicts.append(beat.tick())
    assert Verdict.PING in verdicts


def test_two_sides_that_only_tick_keep_each_other():
    """However their ticks fall: each ping is heard by the other before its next tick."""
    for lag in range(TICKS):
        here, there = Keepalive(500), Keepalive(500)
        for _ in range(lag):
            assert here.tick() is not Verdict.LOST
        for _ in range(100):
            for one, other in ((here, there), (there, here)):
                verdict = one.tick()
                assert verdict is not Verdict.LOST
                if verdict is Verdict.PING:
                    one.said = other.heard = True
