"""The event table of simulated clusters is what was committed; planted bugs in the tap are found."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.protocol.capture import capture, tap
from mantamq.protocol.capture.fact_buffer import Reporter
from mantamq.protocol.capture.tap import TapMachine
from mantamq.protocol.stored.broker import StoredBrokerMachine
from msgspec.structs import replace

from . import disk_faults, disk_stories, tapped
from .model import Violation
from .tapped import play_tapped
from .world import BROKERS

SEEDS = 10
BUDGET = 40


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_without_faults(seed):
    world, dropped = play_tapped(seed, faulty=False)
    # A queue whose first keepers have all left before the tap had its beginning safe is told from where the others know.
    assert not world.withheld and (not dropped or not set(BROKERS) <= set(world.brokers))
    kinds = {row.kind for row in world.order}
    assert {"enqueue", "acquire", "accept", "own", "declare_queue", "connect"} <= kinds


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "stores"])
def test_with_faults_everywhere_and_a_tap_that_dies(seed, stored):
    world, _ = play_tapped(seed, faulty=True, stored=stored)
    assert not world.withheld  # what is missing went with all who had it, while there was no tap


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_with_many_facts_on_their_way(seed, monkeypatch):
    in_haste(monkeypatch)
    world, _ = play_tapped(seed, faulty=False)
    assert not world.withheld


def test_the_tap_died_and_brokers_saw_things():
    deaths = 0
    kinds: set[str] = set()
    for seed in range(1, 9):
        world, _ = play_tapped(seed, faulty=True)
        deaths += world.tap_deaths
        kinds |= {row.kind for row in world.order}
    assert deaths > 10
    assert {"connect", "disconnect", "hand_over", "redelivery", "evict", "rejoin", "credit_stall", "address"} <= kinds


# ---- planted bugs


def overlap(patch: Any) -> None:
    """The tap takes all that it is told."""

    def told(self, peer, frame):
        stream = self.streams[frame.stream]
        for at, data in enumerate(frame.facts):
            stream.have = frame.first + at
            self.rows.append(tap.Rows(frame.stream, stream.have, tap.rows_of(frame, tap.decode_fact(data))))

    patch.setattr(TapMachine, "_told", told)


def silent_gap(patch: Any) -> None:
    """Facts that a new tap lacks are not missed, and facts that are not safe are forgotten."""
    patch.setattr(TapMachine, "_gap", lambda self, peer, frame, stream, upto: setattr(stream, "have", upto))
    heard = Reporter.heard

    def forget(self, frame):
        heard(self, frame)
        for stream, index in getattr(frame, "seen", {}).items():
            for_all = self.buffers.get(stream)
            if for_all is not None:
                self._forget(stream, index)

    patch.setattr(Reporter, "heard", forget)


def told_goes_on(patch: Any) -> None:
    """A teller does not notice that the tap is another one."""

    def up(self):
        self._up = True
        for stream, buffer in self.buffers.items():
            self._offer(stream, buffer)

    patch.setattr(Reporter, "up", up)
    patch.setattr(Reporter, "down", lambda self: setattr(self, "_up", False))
    patch.setattr(TapMachine, "_choose", _first_comes)


def _first_comes(self: TapMachine, name: str, stream: Any) -> None:
    if not stream.teller and stream.offers:
        stream.teller = next(iter(stream.offers))
        if not stream.have:
            self._effects.append(tap.Send(stream.teller, tap.FactsWanted(name, 0)))


def nobody_else_is_asked(patch: Any) -> None:
    """When the teller dies, no other keeper is asked."""
    patch.setattr(TapMachine, "_peer_over", lambda self, peer: None)


def no_patience(patch: Any) -> None:
    """A tap that lacks the beginning takes the first source there is, whoever may have more."""
    init = TapMachine.__init__

    def begins(self, *arguments):
        init(self, *arguments)
        self.timing = SimpleNamespace(tap_grace_ms=0)

    patch.setattr(TapMachine, "__init__", begins)


def no_new_buffer(patch: Any) -> None:
    """A replica that was brought up to date goes on in its buffer as if nothing were between."""
    patch.setattr(
        Reporter,
        "behind",
        lambda self, stream, index, alternate="": self.buffers.get(stream) or self.open(stream, 0, alternate),
    )


def bytes_forgotten(patch: Any) -> None:
    """The size of a run is that of the whole queue."""
    note = Reporter.note

    def noted(self, stream, buffer, fact):
        note(self, stream, buffer, fact)
        buffer.bytes = 0

    patch.setattr(Reporter, "note", noted)


def effect_forgotten(patch: Any) -> None:
    """A void event is told as if it had had effect."""
    did = capture.EventFact
    patch.setattr(capture, "EventFact", lambda seq, term, us, event, *_, **more: did(seq, term, us, event))


def window_forgotten(patch: Any) -> None:
    """Facts beyond the window are never told."""
    init = Reporter.__init__
    patch.setattr(
        Reporter, "__init__", lambda self, timing, limits: init(self, timing, replace(limits, facts_window=3))
    )

    def kept(self, written):
        self._effects += [tap.Send(peer, tap.FactsKept({}, {})) for peer in ()]

    patch.setattr(TapMachine, "_kept", kept)


def gathered_is_told(patch: Any) -> None:
    """A source that is to stop tells what has gathered, and goes on with it."""
    heard = Reporter.heard

    def hears(self, frame):
        news = dict(self._news)
        heard(self, frame)
        self._news.update({stream: buffer for stream, buffer in news.items() if stream in self.buffers})

    patch.setattr(Reporter, "heard", hears)


def on_its_way(patch: Any) -> None:
    """What a teller has said before it heard that it is asked again is taken for its answer."""
    told = TapMachine._told
    patch.setattr(TapMachine, "_told", lambda self, peer, frame: told(self, peer, replace(frame, after=0)))
    in_haste(patch)


def in_haste(patch: Any) -> None:
    """Facts gather for a moment only, so that many frames with some are on their way."""
    init = Reporter.__init__
    patch.setattr(
        Reporter, "__init__", lambda self, timing, limits: init(self, replace(timing, facts_gather_ms=1), limits)
    )


def nothing_is_told_again(patch: Any) -> None:
    """What a broker applies anew from its log is not told: whoever was told before may have lost it with the power."""
    begin = StoredBrokerMachine._begin

    def begins(self):
        self.cluster.again = []
        begin(self)

    patch.setattr(StoredBrokerMachine, "_begin", begins)
    blackouts(patch)


def blackouts(patch: Any) -> None:
    """All lose power at once, and nothing else happens but that the tap dies often: then it is mostly away."""
    patch.setattr(tapped, "TAP_AWAY_US", (1_500_000,))
    patch.setattr(tapped, "TAP_DEATHS", 40)
    patch.setattr(tapped, "TAP_DIES", 0.05)
    patch.setattr(disk_stories, "ALIKE", 1.0)
    patch.setattr(disk_faults, "KINDS", ["blackout"])


PLANTED: list[Callable[[Any], None]] = [
    overlap, silent_gap, told_goes_on, nobody_else_is_asked, no_patience, no_new_buffer, bytes_forgotten,
    effect_forgotten, window_forgotten, gathered_is_told, on_its_way,
]  # fmt: skip
CALM = (bytes_forgotten, on_its_way)
"""Found where no process dies: consumers that come and go are what makes the tap ask another keeper."""


def test_what_is_not_told_again_is_missing():
    """What was in no table yet when all lost power, and is before the checkpoint of every log, is dropped and said to
    be: stories in which as much is missing without the bug do not show it."""
    for seed in range(1, BUDGET):
        missing: list[int] = []
        for plant in (nothing_is_told_again, blackouts):
            with pytest.MonkeyPatch.context() as patch:
                plant(patch)
                missing.append(play_tapped(seed, faulty=True, stored=True)[1])
            if not missing[0]:
                break
        if missing[-1] < missing[0]:
            return
    raise AssertionError(f"not found in {BUDGET} seeds")


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_bugs_are_found(plant, monkeypatch):
    plant(monkeypatch)
    with pytest.raises((Violation, AssertionError)):
        for seed in range(1, BUDGET + 1):
            world, _ = play_tapped(seed, faulty=plant not in CALM)
            assert not world.withheld
