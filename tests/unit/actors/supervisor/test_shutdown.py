"""The end of a cluster: whoever asks for it hears which stores were not closed, or that it may go on running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mantamq.actors import cluster
from mantamq.actors.config import ClusterBook
from mantamq.actors.ray_control.ray_handles import ActorDied, ActorGone
from mantamq.actors.supervisor import shutdown
from mantamq.actors.supervisor.shutdown import Shutdown
from mantamq.protocol.errors import LocalError
from mantamq.protocol.supervisor.layout import Node
from msgspec.structs import replace

ALL = ["sequencer", "ownership", "b1", "b1.r0", "b1.store", "b2", "b2.store"]
BOOK = ClusterBook(
    cluster="c", namespace="n", stage="running", token="", addresses={}, nodes={}, program="", pids={"b1": 7},
)  # fmt: skip


class Actor:
    """A made-up actor. `says`: method -> answer, or what is raised."""

    def __init__(self, ray: MadeUpRay, name: str, **says: Any) -> None:
        self.ray, self.name, self.id, self.says = ray, name, f"{name} {len(ray.all)}", says
        self.asked: list[str] = []
        ray.all.append(self)
        ray.named[name] = self

    def call_now(self, method: str, *args: Any, timeout_s: float = 0.0) -> Any:
        self.asked.append(method)
        answer = self.says[method]
        if isinstance(answer, Told):
            answer = answer.answer()
        if callable(answer):
            answer()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end_now(self, timeout_s: float = 0.0) -> bool:
        self.kill()
        return True

    def kill(self) -> None:
        if self.name not in self.ray.immortal and self.ray.named.get(self.name) is self:
            del self.ray.named[self.name]


class Told:
    """An answer that is made when it is asked for."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer


class MadeUpRay:
    """As `Placement`. `looks`: called whenever names are asked for."""

    def __init__(self, *names: str) -> None:
        self.all: list[Actor] = []
        self.named: dict[str, Actor] = {}
        self.immortal: set[str] = set()
        self.away = False
        self.looks: Callable[[], object] = lambda: None
        for name in names:
            Actor(self, name)

    def supervisor(self) -> Any:
        return self.named.get("supervisor")

    def names(self) -> list[str]:
        if self.away:
            raise RuntimeError("Ray's control store does not answer")
        self.looks()
        return list(self.named)

    def find(self, name: str) -> Any:
        return self.named.get(name)

    def end_all(self) -> None:
        for name in ALL:
            self.named.pop(name, None)

    def supervised(self, unclean: list[str]) -> Actor:
        return Actor(self, "supervisor", book_now=BOOK, stop=self.end_all, unclean=unclean)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutdown.time, "sleep", lambda s: None)


def end(ray: MadeUpRay, supervisor: Any, next_s: float = 0.2, gone_s: float = 0.2) -> Shutdown:
    return Shutdown(ray, supervisor, ["b1", "b2"], next_s, gone_s)  # type: ignore[arg-type]


def test_its_supervisor_stops_it_and_says_which_stores_are_not_clean() -> None:
    ray = MadeUpRay(*ALL)
    one = end(ray, ray.supervised(["b2"]))
    assert one.run() == ["b2"] and ray.named == {} and one.pids == {"b1": 7}
    assert ray.all[-1].asked == ["book_now", "stop", "unclean"]


def test_a_supervisor_that_dies_in_the_middle_has_a_successor_that_goes_on() -> None:
    ray = MadeUpRay(*ALL)
    first = Actor(ray, "supervisor", book_now=BOOK, stop=ActorDied("dead"))
    first.kill()
    ray.looks = lambda: "supervisor" in ray.named or "b1" not in ray.named or ray.supervised([])
    assert end(ray, first, next_s=5.0).run() == [] and ray.named == {}


@pytest.mark.parametrize("method", ["book_now", "stop"])
def test_a_supervisor_that_was_slow_once_is_asked_again(method: str) -> None:
    ray = MadeUpRay(*ALL)
    slow = ray.supervised(["b2"])
    late, says = [ActorGone("no answer")] * 2, slow.says[method]
    slow.says[method] = Told(lambda: late.pop() if late else says)
    assert end(ray, slow, next_s=60.0).run() == ["b2"] and ray.named == {}
    assert slow.asked.count(method) == 3


def test_one_that_has_died_is_not_asked_again_though_ray_has_its_name_yet() -> None:
    ray = MadeUpRay(*ALL)
    dead = Actor(ray, "supervisor", book_now=ActorDied("dead"))
    looks = iter(range(5))
    ray.looks = lambda: next(looks, None) is None and ray.named.get("supervisor") is dead and ray.supervised([])
    assert end(ray, dead, next_s=60.0).run() == [] and dead.asked == ["book_now"]


def test_a_successor_is_asked_when_it_has_taken_over_and_not_before() -> None:
    """Before, it knows of nobody: it would end nothing, and say that all is stopped."""
    ray = MadeUpRay(*ALL)
    first = Actor(ray, "supervisor", book_now=BOOK, stop=ActorDied("dead"))
    first.kill()
    stages = iter([replace(BOOK, stage="starting", pids={})] * 3 + [BOOK])
    successor = ray.supervised(["b2"])
    ends = successor.says["stop"]
    now = {"stage": ""}

    def book() -> ClusterBook:
        said = next(stages)
        now["stage"] = said.stage
        return said

    def stop() -> None:
        if now["stage"] == "running":
            ends()

    successor.says |= {"book_now": Told(book), "stop": stop}
    assert end(ray, first, next_s=60.0).run() == ["b2"] and ray.named == {}
    assert successor.asked == ["book_now"] * 4 + ["stop", "unclean"]


def test_what_the_supervisor_did_not_know_is_ended_too() -> None:
    """A store of its book may have its name for a moment yet, and is as clean as it was said to be."""
    ray = MadeUpRay(*ALL)
    known = replace(BOOK, pids=dict.fromkeys(["supervisor", "b1", "b1.r0", "b1.store"], 7))
    Actor(ray, "supervisor", book_now=known, stop=lambda: [ray.named.pop(name) for name in ("b1", "b1.r0")], unclean=[])
    assert end(ray, ray.named["supervisor"]).run() == ["b2"] and ray.named == {}
    ray = MadeUpRay(*ALL)
    Actor(ray, "supervisor", book_now=known, stop=lambda: ray.named.pop("b1"), unclean=[])
    ray.immortal = {"b2.store"}
    with pytest.raises(LocalError, match=r"may go on running: .* has not ended b2.store within 0.2 s"):
        end(ray, ray.named["supervisor"]).run()


def test_one_that_supervises_no_more_is_not_the_end() -> None:
    ray = MadeUpRay(*ALL)
    first = Actor(ray, "supervisor", book_now=BOOK, stop=LocalError("this is not the cluster's supervisor any more"))
    ray.supervised(["b1"])
    assert end(ray, first).run() == ["b1"] and ray.named == {}


@pytest.mark.parametrize("error", [AttributeError("unclean"), ActorGone("no answer"), OSError("Ray is away")], ids=repr)
def test_a_supervisor_that_does_not_say_which_stores_are_clean_has_stopped_all_the_same(error: Exception) -> None:
    """One of an older version has no such method."""
    ray = MadeUpRay(*ALL)
    book = replace(BOOK, pids=BOOK.pids | {"b3.store": 8})
    old = Actor(ray, "supervisor", book_now=book, stop=ray.end_all, unclean=error)
    assert end(ray, old).run() == ["b1", "b2", "b3"] and ray.named == {}
    assert old.asked == ["book_now", "stop", "unclean"], "once"


def test_a_process_that_ray_has_ended_and_that_is_there_yet_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ray = MadeUpRay(*ALL)
    monkeypatch.setattr(cluster, "Placement", lambda namespace: ray)
    monkeypatch.setattr(cluster, "alive_nodes", lambda: [Node("n1", "10.0.0.1", {"CPU": 2.0})])
    monkeypatch.setattr(cluster.local_ray, "wait_gone", lambda pids, timeout_s: pids)
    supervisor: Any = ray.supervised([])
    assert cluster._stop(supervisor, "n", ["b1", "b2"]) == []
    assert "Ray has ended b1, and their processes (7) are there after 10 s yet" in caplog.text


def test_where_no_supervisor_can_be_reached_all_that_is_left_is_ended() -> None:
    ray = MadeUpRay(*ALL)
    mute = Actor(ray, "supervisor", book_now=ActorGone("no answer"))
    assert end(ray, mute).run() == ["b1", "b2"], "as a power cut ends it"
    assert ray.named == {}


def test_in_a_hurry_nobody_is_waited_for() -> None:
    ray = MadeUpRay(*ALL)
    mute = Actor(ray, "supervisor", book_now=ActorGone("no answer"))
    assert end(ray, mute, next_s=1e9).run(now=True) == ["b1", "b2"] and ray.named == {}


def test_what_does_not_end_is_named() -> None:
    ray = MadeUpRay(*ALL)
    mute = Actor(ray, "supervisor", book_now=ActorGone("no answer"))
    ray.immortal = {"b2", "b2.store"}
    with pytest.raises(LocalError, match=r"may go on running: no supervisor .* b2, b2.store within 0.2 s"):
        end(ray, mute).run()


def test_where_ray_cannot_be_asked_it_may_go_on() -> None:
    ray = MadeUpRay(*ALL)
    mute = Actor(ray, "supervisor", book_now=ActorGone("no answer"))
    ray.away = True
    with pytest.raises(LocalError, match="may go on running: neither its supervisor nor Ray can be asked"):
        end(ray, mute).run()


def test_a_node_that_died_with_all_of_the_cluster_on_it_is_no_error() -> None:
    """Ray hears of it a moment later than whoever asks."""
    ray = MadeUpRay(*ALL)
    dead = Actor(ray, "supervisor", book_now=ActorDied("its node has died"))
    ray.immortal = {"supervisor", *ALL}
    looks = iter(range(8))
    ray.looks = lambda: next(looks, None) is None and ray.named.clear()
    assert end(ray, dead, next_s=0.0, gone_s=60.0).run() == ["b1", "b2"]
    ray = MadeUpRay()
    assert end(ray, dead, next_s=1e9).run() == ["b1", "b2"], "nobody is left to start another supervisor"
