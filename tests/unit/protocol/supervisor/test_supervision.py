"""Whose orders a member takes, and what a supervisor may do: never more than a majority of the brokers confirms."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mantamq.actors.members.member import Superseded
from mantamq.actors.ray_control.ray_handles import ActorDied, ActorGone, Handle
from mantamq.protocol.machine import Tick
from mantamq.protocol.supervisor.office import NOBODY, Commission, Office
from mantamq.protocol.supervisor.supervision import Supervision
from mantamq.protocol.supervisor.supervision_deeds import (
    Began,
    Confirmed,
    Died,
    Elected,
    End,
    EndRefused,
    Kill,
    Known,
    Launched,
    Led,
    ProcessGone,
    Replace,
    Resign,
    Silent,
    Spared,
    Stand,
    TellEnd,
)
from mantamq.protocol.timing import DEFAULT_TIMING
from ray.exceptions import ActorDiedError, ActorUnavailableError

from tests.unit.live_cluster import cluster, until

ONE, TWO = Commission(1, "one", "supervisor"), Commission(2, "two", "supervisor2")
BOOK = {"sequencer": 7, "sequencer2": 8, "ownership": 9, "b1": 11, "b2": 12, "b3": 13, "b2.r0": 22}
EVERYBODY = frozenset({"sequencer", "sequencer2"})


class Sitting:
    """A supervisor in office, and brokers that answer it."""

    def __init__(self, commission: Commission = ONE, elected: bool = True) -> None:
        self.machine = Supervision(commission, elected)
        self.now_ms = 100_000
        self.give(Known(BOOK, ["b1", "b2", "b3"]))

    def give(self, input: Any) -> list[Any]:
        return [deed for one in (Tick(self.now_ms), input) for deed in self.machine.step(one)]

    def answers(self, *brokers: str, holder: Commission = ONE, linked: frozenset[str] = EVERYBODY, settled: int = 1
                ) -> list[Any]:  # fmt: skip
        found: list[Any] = []
        for broker in brokers:
            found += self.give(Confirmed(broker, self.now_ms, holder, settled, linked))
        return found


def test_what_does_not_answer_is_unknown_and_who_is_cut_off_acts_on_nobody() -> None:
    one = Sitting()
    for _ in range(30):
        one.now_ms += 1000
        deeds = [deed for name in ("sequencer2", "b2", "b3") for deed in one.give(Silent(name, one.now_ms - 1000))]
        deeds += one.answers("b1", linked=frozenset({"sequencer"}))
        assert not [deed for deed in deeds if type(deed).__name__ != "Ask"] and not one.machine.may_act()
    assert not one.machine.in_office(one.now_ms)


def test_a_confirmation_is_good_for_a_second() -> None:
    one = Sitting()
    one.answers("b1", "b2")
    assert one.machine.may_act()
    one.now_ms += 1001
    one.give(Tick(one.now_ms))
    assert not one.machine.may_act()


def test_two_of_three_that_surely_died_are_replaced_and_two_that_a_cut_hides_are_not() -> None:
    for surely in (True, False):
        one = Sitting()
        deeds = one.give(Died("b2", surely)) + one.give(Died("b3", surely)) + one.answers("b1")
        assert {deed.name for deed in deeds if type(deed) is Replace} == ({"b2", "b3"} if surely else set())


@pytest.mark.parametrize("surely", [True, False])
def test_two_of_three_that_surely_died_are_replaced_at_the_same_time(surely: bool) -> None:
    one = Sitting()
    book = dict(BOOK)
    for number, name in enumerate(("b2", "b3")):
        one.give(Died(name, surely))
        book[name] = 32 + number
        one.give(Known(book, ["b1", "b2", "b3"]))
        one.give(Launched(name))
    one.answers("b1")
    assert one.machine.may_act() == surely  # of the new processes, which wait, nobody else knows
    one.give(Began("b2"))
    one.answers("b1")
    assert one.machine.may_act() == surely
    one.give(Began("b3"))
    one.answers("b1")
    assert not one.machine.may_act()  # another supervisor may have been heard by both
    one.answers("b1", "b2")
    assert one.machine.may_act()


def test_what_another_supervisor_has_started_is_not_known_to_this_one_alone() -> None:
    one = Sitting()
    for name in ("b2", "b3"):
        one.give(Died(name, True))
    for _ in range(2):  # each input comes behind the book, as it is then
        one.give(Known(BOOK | {"b2": 32, "b3": 33}, ["b1", "b2", "b3"]))
    one.give(Launched("b2"))
    one.answers("b1")
    assert not one.machine.may_act()


def test_who_joins_or_leaves_makes_no_majority() -> None:
    one = Sitting()
    brokers = ["b1", "b2", "b3", "b4"]
    for changing, acts in (("", True), ("b4", False), ("b1", False), ("b3", True)):
        one.give(Known(BOOK | {"b4": 14}, brokers, changing))
        one.answers("b1", "b4")
        assert one.machine.may_act() == acts, changing  # half of four, but one of the three who are members anyway
    one.give(Died("b4", True))
    one.give(Known(BOOK | {"b4": 14}, brokers, "b4"))
    one.answers("b1")
    assert not one.machine.may_act(), "it may have left before it died"


def test_one_back_from_a_cut_does_not_set_itself_above_a_number_that_a_majority_may_have_given() -> None:
    one = Sitting()
    one.give(Died("b1", True))  # whom b1 had taken it cannot say any more
    one.now_ms += 3000
    assert not [deed for deed in one.answers("b2", holder=TWO) if type(deed) is Stand]
    assert [type(deed) for deed in one.answers("b3", holder=TWO)] == [Resign]
    one = Sitting()
    one.now_ms += 3000
    assert not [deed for deed in one.answers("b2", holder=TWO) if type(deed) is Stand]
    assert [deed for deed in one.answers("b1", "b3") if type(deed) is Stand] == [Stand(3)], "it is nobody's"


def test_a_sequencer_stands_still_only_when_the_brokers_have_lost_it_too() -> None:
    one = Sitting()
    one.give(Silent("sequencer2", one.now_ms))
    one.now_ms += 5000
    assert one.answers("b1", "b2", "b3") == []
    lost = one.answers("b1", "b2", linked=frozenset({"sequencer"}))
    assert lost == [Replace("sequencer2", "stands still, and the brokers have lost it")]


def test_a_broker_is_evicted_by_the_word_of_the_sequencer_that_leads_now() -> None:
    one = Sitting()
    out = {"b2": 12}
    one.give(Confirmed("b1", one.now_ms, ONE, 1, EVERYBODY, (5, 8)))
    assert one.give(Led(one.now_ms, (4, 7), out, frozenset(out), frozenset())) == []
    one.give(Confirmed("b3", one.now_ms, ONE, 1, EVERYBODY, (5, 8)))
    assert one.give(Tick(one.now_ms)) == []  # one that was deposed says so
    assert one.give(Led(one.now_ms, (5, 8), out, frozenset(out), frozenset())) == [Replace("b2", "was evicted")]


def test_first_it_is_asked_to_end_then_killed_and_never_without_fresh_evidence() -> None:
    one = Sitting()
    one.give(Silent("sequencer2", one.now_ms))
    one.now_ms += 5000
    without = frozenset({"sequencer"})
    one.answers("b1", "b2", linked=without)
    assert one.give(End("sequencer2")) == [TellEnd("sequencer2", False)]
    one.now_ms += 2400  # the evidence is old by now
    assert [type(deed).__name__ for deed in one.give(Tick(one.now_ms))] == ["Ask"]
    assert one.answers("b1", "b2", linked=without) == [Kill("sequencer2"), ProcessGone("sequencer2")]


def test_who_says_that_it_is_needed_is_left_alone() -> None:
    one = Sitting()
    one.answers("b1", "b2")
    one.give(Died("sequencer2", True))
    one.machine._died.clear()  # pyright: ignore[reportPrivateUsage]
    one.give(End("sequencer2", outside=True))
    assert one.give(EndRefused("sequencer2", "it leads")) == [Spared("sequencer2", "it leads")]


def test_a_candidate_takes_a_higher_number_and_a_majority_makes_it_the_supervisor() -> None:
    new = Sitting(NOBODY._replace(id="two", name="supervisor2"), elected=False)
    assert new.answers("b1") == [] and new.answers("b2") == [Stand(2)]
    assert new.answers("b1", holder=TWO) == [] and new.answers("b2", holder=TWO) == [Elected()]


def test_the_one_that_was_cut_off_resigns_when_it_hears_of_the_next() -> None:
    one = Sitting()
    (deed,) = one.answers("b2", holder=TWO, settled=2)
    assert type(deed) is Resign and one.give(Died("b1", True)) == []


def test_a_candidate_that_came_to_nothing_is_outnumbered() -> None:
    one = Sitting()
    deeds = one.answers("b1", "b2") + one.answers("b3", holder=TWO)
    assert deeds == [Stand(3)]


def test_an_office_is_not_taken_from_one_who_was_heard_a_moment_ago() -> None:
    office = Office()
    assert office.stands(ONE, 10_000) and not office.stands(TWO, 10_000 + DEFAULT_TIMING.supervisor_heard_ms)
    assert office.confirms(ONE, 12_000) and not office.stands(TWO, 12_000 + DEFAULT_TIMING.supervisor_heard_ms)
    assert (
        office.stands(TWO, 12_001 + DEFAULT_TIMING.supervisor_heard_ms)
        and not office.admits(ONE)
        and not office.confirms(ONE, 20_000)
    )
    assert office.ordered(Commission(2, "another", "supervisor2"), 1)  # of two with one number the stream's counts
    assert not office.learns(TWO, 1)


def test_a_majority_of_brokers_must_have_missed_it() -> None:
    office = Office()
    office.stands(ONE, 1)
    late = 2 + DEFAULT_TIMING.supervisor_silent_ms
    assert office.out_of_reach(late, 0, [(1, DEFAULT_TIMING.supervisor_silent_ms)], 3)
    assert not office.out_of_reach(late, 0, [(1, 100)], 3) and not office.out_of_reach(
        late, 0, [(2, DEFAULT_TIMING.supervisor_silent_ms)], 3
    )
    assert not office.out_of_reach(late, 1, [(1, DEFAULT_TIMING.supervisor_silent_ms)], 3)
    assert office.out_of_reach(
        late + DEFAULT_TIMING.supervisor_rank_ms, 1, [(1, DEFAULT_TIMING.supervisor_silent_ms)], 3
    )


def test_unavailable_is_not_dead() -> None:
    handle = Handle("b1", None)
    said = handle._translated(ActorUnavailableError("no answer", b"\0" * 16), "status", 1)  # pyright: ignore
    assert type(said) is ActorGone and not isinstance(said, ActorDied)
    assert type(handle._translated(ActorDiedError(), "status", 1)) is ActorDied  # pyright: ignore


def test_members_learn_of_the_next_supervisor_and_refuse_the_one_before() -> None:
    async def story() -> None:
        async with cluster() as actors:
            for broker in ("b1", "b2", "b3"):
                assert (await actors[broker].confirm(tuple(ONE), True))["holder"] == tuple(ONE)
            await until(lambda: all(actor.office.holder == ONE for actor in actors.values()))
            await until(lambda: actors["b3"].office.settled == 1)
            for broker in ("b1", "b2"):
                actors[broker].office.heard_ms -= DEFAULT_TIMING.supervisor_heard_ms + 1
                assert (await actors[broker].confirm(tuple(TWO), False))["holder"] == tuple(TWO)
            await actors["b1"].confirm(tuple(TWO), True)
            await until(lambda: all(actor.office.holder == TWO for actor in actors.values()))  # by the cluster stream
            for actor in actors.values():
                with pytest.raises(Superseded, match="takes orders of supervisor2, number 2, and not of number 1"):
                    await actor.obey(tuple(ONE), "end", True)
            await actors["b1.r0"].obey(tuple(TWO), "part", ["b9.r0"])
            why = await actors["sequencer"].obey(tuple(TWO), "end")
            assert why == "it leads, and a majority of the brokers follows it"
            assert "it serves" in await actors["b1"].obey(tuple(TWO), "end")

    asyncio.run(story())
