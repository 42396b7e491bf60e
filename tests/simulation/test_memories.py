"""What the processes of a broker have, what it hears of that, and what the simulator makes of it."""

from __future__ import annotations

import random

from mantamq.protocol.limits import Limits
from mantamq.protocol.machine import Measured
from mantamq.protocol.wire.flow_frames import Resident

from .memories import BEAT_US, MIB, WATERMARK_MIB, Heard
from .world import World

BATCH_US = 400_000


def test_a_slow_process_says_what_it_has_and_never_what_it_had_some_batches_ago():
    world = World(random.Random(1), fixed=True, replicas=1, limits=Limits(memory_bytes=WATERMARK_MIB * MIB))
    words: list[tuple[int, int]] = []
    world.watch(sent={Resident: lambda source, target, frame: words.append((world.now_us, frame.bytes // MIB))})
    world.run_for(100_000)
    world.slow("b1.r0", 60_000_000, BATCH_US)
    has: dict[int, int] = {}  # when -> what it had from then on
    for mib in (100, 900, 200, 950, 300, 800, 400):
        has[world.now_us] = mib
        for _ in range(100):  # in each batch it takes fewer inputs than there are beats
            world.measure("b1.r0", Measured(mib * MIB, 0))
            world.run_for(BEAT_US)
    assert [mib for _, mib in words] == list(has.values())
    for (said_us, _), since_us in zip(words, has, strict=True):
        assert since_us <= said_us <= since_us + BATCH_US + BEAT_US


def test_words_of_different_moments_may_be_more_together_than_there_ever_was():
    heard = Heard()
    heard.told("b1.r0", 600 * MIB)
    heard.told("b1.r1", 100 * MIB)
    heard.measured(250 * MIB)
    assert (heard.mib, heard.much) == (950, False)
    heard.told("b1.r1", 400 * MIB)  # the other one has no more than 300 now, and has not said so
    heard.measured(250 * MIB)
    assert (heard.mib, heard.much) == (1250, True)
    heard.told("b1.r0", 300 * MIB)
    heard.measured(250 * MIB)
    assert (heard.mib, heard.much) == (950, True), "not below nine tenths yet"
    heard.gone("b1.r0")
    heard.told("b1.r0", 300 * MIB)  # it was on its way
    heard.measured(250 * MIB)
    assert (heard.mib, heard.much) == (650, False)
