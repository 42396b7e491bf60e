"""What a process that comes back applies again from its log is told again, so that the event table lacks nothing that
was complete: only what lies between its last part and a stream's last checkpoint is gone, and that is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from mantamq.protocol.broker.cluster_state import ClusterState
from mantamq.protocol.capture.capture import BrokerCapture, ReplicaCapture
from mantamq.protocol.capture.event_table import Row
from mantamq.protocol.capture.tap import TapMachine
from mantamq.protocol.machine import EVENTS, Flush, Kept
from mantamq.protocol.stored.broker import StoredBrokerMachine
from mantamq.protocol.stored.queue import StoredQueue
from mantamq.protocol.stored.replica import StoredReplicaMachine
from mantamq.protocol.wire.client_frames import AttachReceiver, AttachSender, Completed, Flow, Transfer
from mantamq.protocol.wire.events import CLUSTER
from stored_cluster import StoredCluster

ALL = ["b1", "b2", "b3"]


class TappedCluster(StoredCluster):
    """`written`: the rows of the event table's parts, stream by stream; `place`: up to where they go."""

    def __init__(self) -> None:
        self.written: list[tuple[str, Row]] = []
        self.place: dict[str, int] = {}
        super().__init__()

    def broker(self, name: str, inc: int, blank: bool = False, **options: Any) -> StoredBrokerMachine:
        options["observers"] = (BrokerCapture(name, inc, self.timing, self.limits),)
        return super().broker(name, inc, blank, **options)

    def queue_replica(self, name: str, broker: str, inc: int, observers: Sequence[Any] = ()) -> StoredReplicaMachine:
        capture = ReplicaCapture(name, broker, inc + self._lives.get(broker, 0), self.timing, self.limits)
        return super().queue_replica(name, broker, inc, (capture,))

    def tap(self) -> None:
        """A tap goes on behind the last part."""
        self.machines[EVENTS] = TapMachine(self.place, self.timing)
        for name in self.machines:
            if isinstance(self.machines[name], (StoredBrokerMachine, StoredReplicaMachine)):
                self._up(EVENTS, name)
        self.rest()

    def part(self) -> None:
        """All rows so far are written."""
        tap = self.machines[EVENTS]
        made, tap.rows = tap.rows, []
        for stream, upto, rows in made:
            self.place[stream] = upto
            self.written += [(stream, row) for row in rows]
        self._inbox.append((EVENTS, Kept(dict(self.place))))
        self.rest()

    def rest(self) -> None:
        for _ in range(30):
            self.pass_time(200)

    def outage(self) -> None:
        """All lose power, the tap too, with the rows that it has not written."""
        self.cut_power(*ALL)
        self.kill(EVENTS, *self.sequencers())
        self.start_again(*ALL)
        self.tap()
        self.part()

    def kinds(self, stream: str = "") -> Counter[str]:
        """How many rows there are of each kind, of log events: each once."""
        rows = [(s, row) for s, row in self.written if row.part >= 0 and s.partition("#")[0] == (stream or CLUSTER)]
        assert len({(row.seq, row.part) for _, row in rows}) == len(rows), "an event is in the table twice"
        return Counter(row.kind for _, row in rows)

    def missing(self) -> dict[str, int]:
        return {s.partition("#")[0]: row.value for s, row in self.written if row.kind == "dropped" and s[0] != "@"}


def before_the_outage() -> TappedCluster:
    """One declaration and one message are in the table; as many more are not."""
    cluster = TappedCluster()
    cluster.tap()
    client = cluster.client("b1")
    for number, name in enumerate(("q", "p"), 1):
        assert not client.command("declare_queue", name=name, durable=True).code
        client.send(AttachSender(number, "", "q"), Transfer(number, 1, [b"1"]))
        cluster.rest()
        if name == "q":
            cluster.part()
    client.send(AttachReceiver(3, "q"), Flow(3, 1))
    cluster.rest()
    assert len(client.take(Completed)) == 2
    return cluster


def what_is_applied_again_is_told_again():
    cluster = before_the_outage()
    assert cluster.kinds("q")["enqueue"] == cluster.kinds()["declare_queue"] == 1
    cluster.outage()
    assert not cluster.retired and not cluster.missing()
    assert cluster.kinds("q")["enqueue"] == 2 and cluster.kinds("q")["acquire"] == 1
    assert cluster.kinds()["declare_queue"] == 2 and cluster.kinds()["in_use"] == 1
    ends = [row.broker for _, row in cluster.written if row.kind == "rejoin"]
    assert set(ends) == set(ALL), "the returns"


def what_a_checkpoint_stands_for_is_counted():
    cluster = before_the_outage()
    have = dict(cluster.place)
    applied = {}
    for name, machine in cluster.machines.items():
        if isinstance(machine, StoredBrokerMachine):
            machine.store.checkpoint()
            applied["cluster"] = machine.keeper.commit
        elif isinstance(machine, StoredReplicaMachine):
            for id, queue in machine.queues.items():
                assert isinstance(queue, StoredQueue)
                queue._wanted = True
                machine.dirty[id] = None
                applied[id.partition("#")[0]] = queue.applied
        cluster._inbox.append((name, Flush()))
    cluster.rest()
    cluster.outage()
    places = {stream.partition("#")[0]: index for stream, index in have.items() if stream[0] != "@"}
    assert cluster.missing() == {stream: index - places.get(stream, 0) for stream, index in applied.items()}
    assert cluster.kinds("q")["enqueue"] == 1


STORIES = [what_is_applied_again_is_told_again, what_a_checkpoint_stands_for_is_counted]


@pytest.mark.parametrize("story", STORIES)
def test_told_again(story):
    story()


def _silent(patch: pytest.MonkeyPatch) -> None:
    """As it was: the wiring's entries are applied again, and nobody hears of it."""
    resume = ClusterState.resume

    def silent(self: ClusterState, *arguments: Any) -> None:
        resume(self, *arguments)
        self.again.clear()

    patch.setattr(ClusterState, "resume", silent)


def test_a_broker_that_says_nothing_is_found(monkeypatch):
    _silent(monkeypatch)
    with pytest.raises(AssertionError):
        what_is_applied_again_is_told_again()
