"""Configurations travel whole, between processes of any minor; and the operator's choice is judged once."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import pytest
from mantamq.actors.config import (
    BrokerConfig,
    ClusterBook,
    ClusterConfig,
    Config,
    EventsConfig,
    LogConfig,
    ManagementConfig,
    ManagementNodeConfig,
    MemberConfig,
    OwnershipConfig,
    ReplicaConfig,
    SequencerConfig,
    StoreConfig,
    StoreNodeConfig,
    TapConfig,
    chosen_limits,
)
from mantamq.actors.links.handshake import Credentials
from mantamq.actors.ray_control.placement import Placement
from mantamq.actors.supervisor.plan import Plan
from mantamq.actors.supervisor.supervisor_watch import WatchConfig
from mantamq.protocol.errors import LocalError
from mantamq.protocol.limits import Limits
from mantamq.protocol.timing import Timing
from ray import cloudpickle

TIMING = Timing(evict_ms=3500)
EVENTS = EventsConfig(directory="/events", keep_s=5.0, keep_bytes=6)
LOGS = LogConfig(format="json", level="debug", cluster="mantamq", host="10.0.0.1")
MANAGEMENT = ManagementConfig(port=15672, host="10.0.0.1", elsewhere=True, webhook="http://x/y")
STORE = StoreConfig(
    data="/data", catalog="sqlite", catalog_name="mine", container_bytes=1 << 20, containers=3, gather_bytes=4096, reserve_bytes=5, wait_s=6.0,
    node_wait_s=7.0, wait_for=2, restart=True,
)  # fmt: skip
CHOSEN = ClusterConfig(
    token="open sesame", slice_ms=9, spares=3, queue_actors_max=4, client_port=5000, bind="10.0.0.1", events=EVENTS,
    rebalance=False, program="01", limits=chosen_limits(5000), timing=TIMING, store=STORE, management=MANAGEMENT,
)  # fmt: skip
MEMBER = MemberConfig(
    credentials=Credentials("c", b"\x00secret\xff", "b1", 1 << 47, 7), bind="10.0.0.1",
    peers={"sequencer": "10.0.0.1:1"}, limits=chosen_limits(5000), timing=TIMING, logs=LOGS,
)  # fmt: skip
ALL: list[Config] = [
    LOGS,
    EVENTS,
    STORE,
    MANAGEMENT,
    CHOSEN,
    MEMBER,
    SequencerConfig(member=MEMBER, voters=("b1", "b2"), leading=True),
    OwnershipConfig(member=MEMBER, slice_ms=9),
    BrokerConfig(
        member=MEMBER, client_port=5000, voters=("b1", "b2"), blank=True, token="open sesame", events=True,
        replicas_max=4, store="/data/b1",
    ),
    ReplicaConfig(member=MEMBER, broker="b1", events=True, store="/data/b1"),
    TapConfig(member=MEMBER, events=EVENTS, folder="/events/c"),
    ManagementNodeConfig(member=MEMBER, management=MANAGEMENT, brokers=("10.0.0.1:5000",), token="open sesame"),
    StoreNodeConfig(member=MEMBER, broker="b1", store=STORE, node="n1", birth=True),
    WatchConfig(
        placement=Placement("here"), state=b"secret", rank=1, brokers=("b1", "b2"), successor=b"Supervisor"
    ),
    ClusterBook(
        cluster="c", namespace="mantamq", stage="running", token="open sesame", addresses={"b1": "10.0.0.1:5"},
        nodes={"b1": "n1"}, program="01", pids={"b1": 7}, notes=("new store in /data",), data="/data",
        events="/events", paged=True,
    ),
    Plan(config=CHOSEN, members=("b1", "b3"), hosts=2, moving=("b1", 2), asked=2),
]  # fmt: skip
FIRST: dict[str, set[str]] = {
    "LogConfig": set(),
    "EventsConfig": set(),
    "StoreConfig": set(),
    "ManagementConfig": set(),
    "ClusterConfig": set(),
    "MemberConfig": {"credentials", "bind"},
    "SequencerConfig": {"member", "voters", "leading"},
    "OwnershipConfig": {"member", "slice_ms"},
    "BrokerConfig": {"member", "client_port", "voters", "blank"},
    "ReplicaConfig": {"member", "broker"},
    "TapConfig": {"member", "events", "folder"},
    "ManagementNodeConfig": {"member", "management"},
    "StoreNodeConfig": {"member", "broker", "store"},
    "ClusterBook": {"cluster", "namespace", "stage", "token", "addresses", "nodes", "program", "pids"},
    "WatchConfig": {"placement", "state", "rank", "brokers", "successor"},
    "Plan": set(),
}
"""The fields without a default: those that every minor has known. The list does not grow."""

TABLES = {"peers", "addresses", "nodes", "pids"}
"""Fields that are tables by name."""

every = pytest.mark.parametrize("config", ALL, ids=lambda config: type(config).__name__)


def packed(config: Config) -> dict[str, Any]:
    """The map that travels."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(config))


def read(config: Config, by_name: dict[str, Any]) -> Any:
    """As `pickle` reads what a process of another minor has written."""
    rebuild, (cls, _) = config.__reduce__()
    return rebuild(cls, msgspec.msgpack.encode(by_name))


def maps(by_name: dict[str, Any]) -> list[dict[str, Any]]:
    """A map, and those in it that are values of their own, not tables by name."""
    inner = [value for name, value in by_name.items() if isinstance(value, dict) and name not in TABLES]
    return [by_name, *(one for value in inner for one in maps(value))]


@every
def test_it_travels_whole(config: Config) -> None:
    for way in (pickle, cloudpickle):
        found = way.loads(way.dumps(config))
        assert found == config and type(found) is type(config)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(config), type=type(config)) == config


@every
def test_no_field_of_an_example_has_its_default(config: Config) -> None:
    """Else the tests here would not notice a field that is lost."""
    for field in msgspec.structs.fields(config):
        assert getattr(config, field.name) != field.default, field.name


@every
def test_what_a_newer_minor_says_besides_is_skipped(config: Config) -> None:
    said = packed(config)
    for one in maps(said):
        one["later"] = {"anything": [1, "2"]}
    assert read(config, said) == config


@every
def test_what_an_older_minor_did_not_know_has_its_default(config: Config) -> None:
    for field in msgspec.structs.fields(config):
        said = packed(config)
        del said[field.name]
        if field.required:
            with pytest.raises(msgspec.ValidationError, match=field.name):
                read(config, said)
            continue
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        assert read(config, said) == msgspec.structs.replace(config, **{field.name: default})


@every
def test_only_the_first_fields_have_no_default(config: Config) -> None:
    required = {field.name for field in msgspec.structs.fields(config) if field.required}
    assert required == FIRST[type(config).__name__]


def test_all_of_them_are_examined() -> None:
    def below(cls: type[Config]) -> set[type[Config]]:
        return {cls, *(one for inner in cls.__subclasses__() for one in below(inner))}

    assert below(Config) - {Config} == {type(config) for config in ALL}


@every
def test_no_secret_is_shown(config: Config) -> None:
    assert "secret" not in repr(config) and "sesame" not in repr(config)
    assert type(config).__name__ in repr(config)


@every
def test_it_stays_as_it_is(config: Config) -> None:
    with pytest.raises(AttributeError):
        setattr(config, config.__struct_fields__[0], None)


@pytest.mark.parametrize(
    ("config", "brokers", "rule", "way_out"),
    [
        (ClusterConfig(), 0, "at least one broker, not 0", r"choose 1 or more \(`mantamq up --brokers`"),
        (ClusterConfig(spares=0), 3, "at least one warm queue replica", r"not 0 and 2: choose 1 or more .*--spares"),
        (ClusterConfig(queue_actors_max=0), 3, "one that keeps queues", r"not 2 and 0: .*queue_actors_max=\.\.\."),
        (ClusterConfig(client_port=65534), 3, "3 brokers' client ports cannot", "name one of 1 to 65,533, or 0"),
        (ClusterConfig(client_port=-1), 3, "cannot count up from -1", "name one of 1 to 65,533, or 0"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_with_the_rule_and_the_way_out(
    config: ClusterConfig, brokers: int, rule: str, way_out: str
) -> None:
    with pytest.raises(LocalError, match=f"{rule}.*{way_out}"):
        config.check(brokers)


@pytest.mark.parametrize("wrong", [{"slice_ms": 20.0}, {"token": None}, {"bind": 7}, {"spares": "2"}])
def test_an_option_that_no_process_could_read_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(LocalError, match=f"not of its type.* at `\\$.{next(iter(wrong))}`"):
        ClusterConfig(**wrong).check(3)


@pytest.mark.parametrize(
    "config",
    [
        ClusterConfig(events=EventsConfig(directory=object())),  # pyright: ignore[reportArgumentType]
        ClusterConfig(events=EventsConfig(keep_bytes=1 << 64)),
        ClusterConfig(token="\udcff"),
    ],
)
def test_an_option_that_cannot_travel_is_refused(config: ClusterConfig) -> None:
    with pytest.raises(LocalError, match="not of its type, and no process could read it"):
        config.check(3)


def test_the_defaults_and_the_bounds_may_be_chosen() -> None:
    ClusterConfig().check(1)
    ClusterConfig(events=EventsConfig(keep_s=0)).check(1)
    ClusterConfig(spares=1, queue_actors_max=1, client_port=65533).check(3)
    for size in (1024, 25_165_824):
        assert chosen_limits(size) == Limits(message_bytes=size)


@pytest.mark.parametrize("size", [0, 1023, 25_165_825, 1 << 30])
def test_a_size_of_messages_that_no_frame_carries_is_refused(size: int) -> None:
    with pytest.raises(LocalError, match=f"1,024 to 25,165,824 bytes .*, not {size:,}: send what is larger in pieces"):
        chosen_limits(size)


@pytest.mark.parametrize("connect", ["mysql://me@host/db", "nowhere", "postgresql"])
def test_a_catalogue_that_cannot_be_is_refused_before_anything_starts(connect: str) -> None:
    with pytest.raises(LocalError, match=r"a catalogue is in SQLite .*mantamq up --connect"):
        StoreConfig(data="/data", catalog=connect).check(3)
    with pytest.raises(LocalError, match=r"small letters.*--catalog"):
        StoreConfig(data="/data", catalog="postgresql://me@host/db", catalog_name="Not Good").check(3)
    for fine in ("log", "", "sqlite", "postgresql://me@host/db"):
        StoreConfig(data="/data", catalog=fine, catalog_name="mine").check(3)
