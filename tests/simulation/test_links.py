"""A process that is there again before its peers have heard of its death has links of its own."""

from __future__ import annotations

import random

from .world import World


def test_the_end_of_a_dead_process_does_not_cut_the_links_of_the_next_one() -> None:
    world = World(random.Random(1), replicas=1)
    world.run_for(100_000)
    broker, hub = "b1", world.sequencers()[0]
    way = world.way(broker, hub)
    way.last_us = world.now_us + 30_000  # so much is on its way
    machine = world.machines[broker]
    world.crash(broker, back=False)
    world.machines[broker] = machine  # as the next one, at once
    world.link(broker, hub)
    epoch = way.epoch
    world.run_for(40_000)
    assert way.epoch == epoch, "what goes over the new link is lost, and nobody hears so"
