"""Whose word counts when several members report on the cluster."""

from __future__ import annotations

import pytest
from made_up_status import broker, member, report
from mantamq.actors import cluster
from mantamq.actors.ray_control import door, local_ray
from mantamq.actors.supervisor import lookout
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
