"""Whose word counts when several members report on the cluster."""

from __future__ import annotations

from typing import Any

import pytest
from made_up_status import broker, member, report
from mantamq.actors import cluster
from mantamq.actors.ray_control import door, local_ray
from mantamq.actors.supervisor import lookout
from mantamq.management.event_feed import keeper_in
from mantamq.protocol.errors import LocalError
from mantamq.protocol.machine import EVENTS
from mantamq.protocol.status.cluster import ClusterStatus, SupervisorStatus
from mantamq.protocol.status.machines import BrokerStatus, OfficeStatus


def said(confirmed: bool, *names: str) -> ClusterStatus:
    status = report([member(name, "BrokerNode") for name in names])
    status.supervisor.confirmed = confirmed
    return status


def test_of_several_supervisors_the_confirmed_one_is_believed_else_the_last() -> None:
    old, late, new = said(False, "b1"), said(False, "b1"), said(True, "b1")
    assert lookout._in_office({"supervisor": old, "supervisor10": late, "supervisor9": new}) is new
    assert lookout._in_office({"supervisor": old, "supervisor10": late, "supervisor9": said(False, "b1")}) is late
    assert lookout._in_office({"supervisor": old, "supervisor2": said(False)}) is old, "the other knows nothing yet"
    assert lookout._in_office({"supervisor": old}) is old


@pytest.mark.parametrize("error, asked", [
    (door.NoRay("nobody"), True), (door.RayRefused("does not answer"), True), (door.TokenAsked("its token"), False),
])  # fmt: skip
def test_brokers_are_asked_when_ray_is_away_and_not_when_it_asks_for_its_token(
    error: Exception, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"address": "10.0.0.1:1", "namespace": "n", "members": {"b1": "10.0.0.1:2", "b2": "10.0.0.2:2"}}

    def join(address: str, namespace: str) -> None:
        raise error

    monkeypatch.setattr(local_ray, "recall", lambda: known)
    monkeypatch.setattr(local_ray, "join", join)
    state = broker(["b1", "b2"], "b2", connections=1, supervisor=OfficeStatus(name="supervisor2", number=2))

    def ask(address: str) -> BrokerStatus | str:
        return state if address == "10.0.0.2:2" else "it is silent"

    if not asked:
        with pytest.raises(door.TokenAsked):
            cluster.look(ask=ask)
        return
    status = cluster.look(ask=ask)
    assert status.members == {"b2": "10.0.0.2:2"} and not status.healthy
    assert "Ray cannot be asked" in status.unhealthy[0]
    assert "broker b1 at 10.0.0.1:2: it is silent" in status.unhealthy
    assert (status.brokers_in_cluster, status.brokers_taking_clients) == (2, 1)
    assert status.supervisor == SupervisorStatus(name="supervisor2", number=2, confirmed=False)
    with pytest.raises(type(error)):
        cluster.look("10.0.0.9:1", ask=ask)  # another Ray: what is written down is not of it


class Tap:
    """A handle of who keeps the events."""

    def __init__(self, wrong: Exception | None = None) -> None:
        self.wrong = wrong

    def call_now(self, method: str, *values: Any, timeout_s: float) -> Any:
        assert timeout_s < 3, "the page waits no longer"
        if self.wrong is not None:
            raise self.wrong
        return method, *values


class Place:
    def __init__(self, tap: Tap | None, wrong: Exception | None = None) -> None:
        self.tap = tap
        self.wrong = wrong

    def find(self, name: str) -> Tap | None:
        assert name == EVENTS
        if self.wrong is not None:
            raise self.wrong
        return self.tap


def test_who_keeps_the_events_is_asked_by_its_name() -> None:
    seen: Any = lookout.Lookout(Place(Tap()))  # pyright: ignore[reportArgumentType]
    assert keeper_in(seen) is seen
    assert seen.newest(("own",), "orders", 9) == ("newest", ["own"], "orders", 9)
    assert seen.note("@management#1", 1, [[0]]) == ("note", "@management#1", 1, [[0]])


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place(None), "nobody is known to Ray"), (Place(None, RuntimeError("no GCS")), "cannot be asked.*no GCS"),
        (Place(Tap(AttributeError("no newest"))), "of a version"), (Place(Tap(LocalError("is dead"))), "is dead"),
    ],
)  # fmt: skip
def test_where_it_cannot_be_asked_that_is_said(place: Any, words: str) -> None:
    with pytest.raises(LocalError, match=words):
        lookout.Lookout(place).newest([], "", 9)
