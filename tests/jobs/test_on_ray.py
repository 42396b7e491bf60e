"""Spark on a real Ray cluster, by RayDP, in both directions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("raydp")

from history import SECOND
from mantamq.jobs import session as sessions
from mantamq.jobs.events import events, live_tail, release, tail_frame
from mantamq.jobs.lifecycle import lifecycle
from mantamq.protocol.capture.event_table import Row
from mantamq.store.events.event_parts import EventWriter, WriterLimits

pytestmark = pytest.mark.timeout(170)
STORE_BYTES = 200 * 1024 * 1024


def until(true: Callable[[], bool], limit_s: float = 30) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


def javas() -> list[int]:
    """Java processes below this one that still run."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.name() == "java" and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.NoSuchProcess:
            pass
    return found


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, str]]:
    """Two Ray nodes: one for brokers, one for Spark; name -> node id. The driver is on the head, which is a broker's."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray
    from ray.cluster_utils import Cluster

    sessions._set_environment(sessions.find_java())
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 4,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
            "resources": {sessions.BROKER_RESOURCE: 1},
        },
    )
    spark_node = cluster.add_node(num_cpus=3, object_store_memory=STORE_BYTES, resources={sessions.SPARK_RESOURCE: 1})
    ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
    yield {"broker": cluster.head_node.node_id, "spark": spark_node.node_id}
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def on_ray(nodes) -> Iterator[sessions.Session]:
    with sessions.start("ray", memory="600m") as session:
        yield session


def put(block: bytes):
    import ray

    return ray.put(block)


def fill(writer: EventWriter, first: int, last: int) -> None:
    """Messages that are enqueued, acquired, accepted: three rows each."""
    for n in range(first, last + 1):
        for step, kind in enumerate(("enqueue", "acquire", "accept")):
            seq = 3 * n + step
            row = Row(
                term=1, seq=seq, time_us=seq * SECOND, kind=kind, queue="q#1", broker="b1", position_first=n,
                position_last=n, count=1, acquisition=n,
            )  # fmt: skip
            writer.append("q#1", seq, [row])


def test_history_and_tail_and_back_to_ray(on_ray, tmp_path):
    import ray
    from raydp.spark.dataset import from_spark_recoverable, release_spark_recoverable

    writer = EventWriter(str(tmp_path), WriterLimits(block_rows=300), put)
    fill(writer, 1, 500)
    writer.roll()
    fill(writer, 501, 1000)
    tail = writer.tail()
    assert all(isinstance(block, ray.ObjectRef) for block in tail.blocks) and len(tail.blocks) > 3
    found = events(on_ray, tail=tail)
    del tail
    writer.roll()  # lets go of the blocks: the session's pins keep them
    assert sorted(row["row"] for row in found.df.select("row").collect()) == list(range(1, 3001))
    lives = lifecycle(found.df)
    assert {
        row["fate"]: row["n"] for row in lives.groupBy("fate").agg({"messages": "sum"}).toDF("fate", "n").collect()
    } == {"accept": 1000}
    dataset = from_spark_recoverable(lives)
    try:
        assert dataset.count() == lives.count()
        assert dataset.sum("messages") == 1000
    finally:
        release_spark_recoverable(lives)


def test_no_row_of_the_tail_passes_through_python(on_ray):
    writer = EventWriter("memory://python", put=put)
    fill(writer, 1, 10)
    plan = tail_frame(on_ray, writer.tail())._jdf.queryExecution().toString()
    assert "Python" not in plan and "MapIn" not in plan


def test_blocks_that_are_no_references(on_ray):
    writer = EventWriter("memory://bytes")
    fill(writer, 1, 10)
    assert events(on_ray, tail=writer.tail()).df.count() == 30


def pinned(ids: set[str]) -> set[str]:
    """Those of these objects that somebody still refers to, as their owner (this process) knows."""
    import ray

    counts = ray._private.worker.global_worker.core_worker.get_all_reference_counts()
    return ids & {id.decode() if isinstance(id, bytes) else id for id in counts}


def test_released_blocks_are_not_pinned(on_ray):
    release(on_ray)
    writer = EventWriter("memory://pinned", WriterLimits(block_rows=3000), put)
    fill(writer, 1, 2000)
    tail = writer.tail()
    ids = {block.hex() for block in tail.blocks}
    found = events(on_ray, tail=tail)
    writer.roll()
    del tail
    assert found.df.count() == 6000
    assert pinned(ids) == ids
    release(on_ray)
    until(lambda: not pinned(ids))


def spark_actors() -> dict[str, str]:
    """Spark's actors that are alive: class -> node id."""
    import ray

    alive = [one for one in ray._private.state.actors().values() if one["State"] == "ALIVE"]
    found = {one["ActorClassName"].rpartition(".")[2]: one["Address"]["NodeID"] for one in alive}
    return {name: node for name, node in found.items() if name.startswith("Ray")}


def test_executors_keep_off_broker_nodes(on_ray, nodes):
    where = spark_actors()
    assert where == dict.fromkeys(("RayDPSparkMaster", "RayAppMaster", "RayDPExecutor"), nodes["spark"])


def test_no_tap_here(on_ray):
    assert live_tail() is None


def test_after_stop_nothing_is_left(on_ray, tmp_path):
    """Last of those that use the session: stops it, starts another, and stops that."""
    import ray

    on_ray.stop()
    until(lambda: not javas())
    session = sessions.start("ray", memory="600m")
    writer = EventWriter(str(tmp_path), put=put)
    fill(writer, 1, 100)
    tail = writer.tail()
    ids = {block.hex() for block in tail.blocks}
    assert events(session, tail=tail).df.count() == 300
    del tail
    writer.roll()
    assert javas() and pinned(ids) == ids
    session.stop()
    session.stop()
    assert not session.pins and not session.folder.exists()
    until(lambda: not javas() and not pinned(ids))
    until(lambda: not spark_actors())
    assert ray.is_initialized(), "Ray is not ours to stop"


def test_spark_on_a_ray_of_its_own():
    """In a process of its own, since this one has a Ray."""
    before = set(javas())

    code = """
import sys, types
mantamq = types.ModuleType("mantamq"); mantamq.__path__ = [sys.argv[1]]; sys.modules["mantamq"] = mantamq
from mantamq.jobs import session
with session.start("ray", address="local", memory="600m") as s:
    print("rows", s.spark.range(10).count())
import ray
print("ray", ray.is_initialized())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parents[2])], capture_output=True, text=True, timeout=120
    )
    assert "rows 10" in done.stdout and "ray False" in done.stdout, done.stderr
    until(lambda: set(javas()) <= before)


WITHOUT_JAVA = """
import os, sys, types
mantamq = types.ModuleType("mantamq"); mantamq.__path__ = [sys.argv[1]]; sys.modules["mantamq"] = mantamq
path, os.environ["PATH"] = os.environ["PATH"], sys.argv[2]
import ray
ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
os.environ["PATH"] = path
from mantamq.jobs import session
from mantamq.protocol.errors import LocalError
try:
    session.start("ray", memory="600m")
except LocalError as error:
    print("said", error)
print("alive", [node["Alive"] for node in ray.nodes()])
"""


def test_a_ray_that_was_started_without_java_is_left_alone(tmp_path):
    """Its raylet would abort, and take brokers with it."""
    for folder in ("/usr/bin", "/bin"):
        for name in os.listdir(folder):
            if not name.startswith("java") and not (tmp_path / name).exists():
                (tmp_path / name).symlink_to(Path(folder, name))
    command = [sys.executable, "-c", WITHOUT_JAVA, str(Path(__file__).parents[2]), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert "said Ray was started without Java on its path at" in done.stdout, done.stderr
    assert "alive [True]" in done.stdout
