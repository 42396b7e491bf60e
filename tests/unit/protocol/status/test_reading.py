"""A status of a member of another version is read, and nobody else suffers from one that cannot be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from made_up_status import ORDERS, actors, named, report
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status import cluster, machines, members
from mantamq.protocol.status.base import StatusStruct
from mantamq.protocol.status.cluster import ClusterStatus
from mantamq.protocol.status.machines import BrokerStatus, WaitingStatus
from mantamq.protocol.status.members import MemberStatus, ShellStatus, read_member
from mantamq.protocol.wire.majority_frames import Waiting
from msgspec import NODEFAULT, UNSET

KINDS = {
    one
    for module in (machines, members, cluster)
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, StatusStruct)
}


def grown(value: Any) -> Any:
    """As a newer program would say it: each struct has a field more."""
    if isinstance(value, dict):
        return (
            {key: grown(one) for key, one in value.items()} | {"of_a_newer_program": [1]} if "name" in value else value
        )
    return [grown(one) for one in value] if isinstance(value, list) else value


def test_a_status_comes_back_as_it_was() -> None:
    status = report(actors())
    assert ClusterStatus.read(status.plain()) == status
    assert ClusterStatus.read(msgspec.json.decode(msgspec.json.encode(status))) == status


def test_fields_of_a_newer_member_are_ignored() -> None:
    status = report(actors())
    plain = status.plain() | {"newer": 1}
    plain["actors"] = [grown(actor) for actor in plain["actors"]]
    for actor in plain["actors"]:
        if actor["role"] in ("BrokerNode", "Sequencer"):
            actor["machine"]["of_a_newer_program"] = {"b1": 7}
    assert ClusterStatus.read(plain) == status


def test_fields_that_an_older_member_lacks_have_their_defaults() -> None:
    for actor in actors():
        plain = actor.plain()
        for field in msgspec.structs.fields(type(actor)):
            if field.default is not NODEFAULT and field.name != "machine":
                plain.pop(field.encode_name, None)
        older = read_member(plain)
        assert type(older) is type(actor) and older.machine == actor.machine and older.refused is UNSET and older.alive


@pytest.mark.parametrize("kind", sorted(KINDS, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_a_status_takes_no_positions_and_tells_of_each_field(kind: type[StatusStruct]) -> None:
    own = {name for name in kind.__annotations__ if name in kind.__struct_fields__}
    with pytest.raises(TypeError):
        kind(*range(max(1, len(kind.__struct_fields__))))
    if own and kind is not MemberStatus:
        told = (kind.__doc__ or "").partition("Attributes:")[2].replace(",", " ").replace(":", " ").split()
        assert own <= set(told), "each field has its meaning"


def test_a_member_whose_status_cannot_be_read_is_there_all_the_same() -> None:
    status = report(actors())
    plain = status.plain()
    broken = next(actor for actor in plain["actors"] if actor["name"] == "b2")
    del broken["machine"]["blank"]
    read = ClusterStatus.read(plain)
    mute = named(read.actors, "b2")
    assert mute.machine is UNSET and "cannot be read" in (mute.error or "") and "blank" in (mute.error or "")
    assert mute.address == named(status.actors, "b2").address
    assert [actor for actor in read.actors if actor.name != "b2"] == [a for a in status.actors if a.name != "b2"]
    with pytest.raises(LocalError, match="another version"):
        BrokerStatus.read({})


def test_an_actor_of_a_role_that_is_not_known_here_is_a_member() -> None:
    read = read_member({"name": "m1", "role": "Metrics", "machine": {"x": 1}})
    assert type(read) is MemberStatus and read.machine == {"x": 1} and read.plain()["role"] == "Metrics"


def test_a_member_has_its_shells_fields_and_no_key_for_what_it_has_not() -> None:
    assert set(ShellStatus.__struct_fields__) < set(MemberStatus.__struct_fields__)
    assert set(read_member({"name": "b1", "role": "BrokerNode"}).plain()) == {
        "name", "role", "pid", "node", "host", "loop", "address", "alive",
    }  # fmt: skip


def test_what_waits_has_its_frames_fields_by_name() -> None:
    waiting = Waiting(ORDERS, ["b1"], 1, [], [], {"b1": 3}, 7)
    status = WaitingStatus.of(waiting)
    assert msgspec.to_builtins(status) == msgspec.structs.asdict(waiting)
    assert msgspec.convert(msgspec.to_builtins(status), WaitingStatus) == status
