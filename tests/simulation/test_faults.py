"""What befalls processes is no more than the cluster can bear: or what it is asked for could not be so."""

from __future__ import annotations

from .workload import Story


def test_who_is_back_with_nothing_keeps_no_queue_though_it_has_heard_of_none() -> None:
    story = Story(8, faulty=True, stored=False)
    story._set_up()
    faults, world = story.faults, story.world
    assert faults is not None and len(world.brokers) > 2
    broker, queue = world.brokers[-1], story.watch.wiring.ids["dead"]
    assert faults._keeps(broker, queue)
    world.crash(broker)
    seen = False
    while not faults._whole(broker):
        machine = world.machines.get(broker)
        seen = seen or (machine is not None and machine.wiring.by_id(queue) is None)
        assert machine is None or not machine.keeper.blank or not faults._keeps(broker, queue)
        world.run_for(1_000)
    assert seen and faults._keeps(broker, queue)
