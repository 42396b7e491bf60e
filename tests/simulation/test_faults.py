"""What befalls processes is no more than the cluster can bear: or what it is asked for could not be so."""

from __future__ import annotations

from . import faults as drawing
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


def test_a_few_stories_have_many_faults_and_the_others_the_usual_ones():
    drawn = [drawing.drawn(seed) for seed in range(1, 1001)]
    dense = [(rate, kinds) for rate, kinds in drawn if rate != drawing.RATE]
    assert 80 < len(dense) < 160
    assert all(rate == drawing.DENSE_RATE for rate, _ in dense)
    away = sum(kinds[-len(drawing.AWAY) :] == drawing.AWAY for _, kinds in dense)
    assert len(dense) / 3 < away < 2 * len(dense) / 3
    assert all(kinds == drawing.KINDS for rate, kinds in drawn if rate == drawing.RATE)


def test_who_wants_more_in_all_stories_gets_it(monkeypatch):
    monkeypatch.setattr(drawing, "RATE", 0.5)
    assert {drawing.drawn(seed)[0] for seed in range(1, 101)} == {0.5}
