"""Brokers whose cluster stream is durable, with real sequencers and stores: what was declared survives a power cut."""

from __future__ import annotations

import json

import pytest
from mantamq.protocol.broker import cluster_state
from mantamq.protocol.broker.lifecycle import State
from mantamq.protocol.capture.capture import BrokerCapture
from mantamq.protocol.limits import Limits
from mantamq.protocol.log.checkpoint import ENTRY_BYTES
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.log.retained import RETAINED_BYTES
from mantamq.protocol.machine import Flush, Load, Loaded, PeerDown, PeerUp, Received, Retire, Send, Tick, is_sequencer
from mantamq.protocol.sequencer.election import Election
from mantamq.protocol.store.host import TX
from mantamq.protocol.stored.broker import StoredBrokerMachine
from mantamq.protocol.wire.capture_frames import decode_fact
from mantamq.protocol.wire.client_frames import Command, Reply
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.log_frames import Evicted, Prepare, UpdateStart
from mantamq.protocol.wire.records import CHECKPOINT, OPENED
from mantamq.protocol.wire.store_frames import Ahead, Expected, Ousted, Room, Take, Taken, Written
from mantamq.protocol.wiring.wiring import Wiring
from stored_cluster import StoredCluster
from toy_disk import ToyDisk
from toy_observers import BrokerRecorder

ALL = ["b1", "b2", "b3"]


def declare(client, number):
    """An exchange, a queue, and a binding between them."""
    for reply in (
        client.command("declare_exchange", name=f"e{number}", type="direct", durable=True),
        client.command("declare_queue", name=f"q{number}", durable=True),
        client.command("bind", exchange=f"e{number}", queue=f"q{number}", key="k"),
    ):
        assert not reply.code, reply


def declared(cluster, broker):
    """The numbers of what is declared there: exchange, queue and binding."""
    wiring = cluster.machines[broker].wiring
    exchanges = {one.name[1:] for one in wiring.exchanges() if one.name.startswith("e")}
    queues = {one.name[1:] for one in wiring.queues()}
    bindings = {one.queue[1:] for one in wiring.bindings()}
    assert exchanges >= queues >= bindings
    return sorted(map(int, bindings))


def kinds(cluster, broker):
    return [record.kind for record in cluster.disks[broker].logs[TX].records]


def power_is_cut(kind=StoredBrokerMachine):
    """All lose power; whichever two come back have all that was declared, and go on."""
    for back in (["b1", "b2"], ["b3", "b1"], ["b2", "b3"]):
        cluster = StoredCluster(kind=kind)
        client = cluster.client("b2")
        for number in (1, 2, 3):
            declare(client, number)
        cluster.blackout(*back)
        for name in back:
            assert declared(cluster, name) == [1, 2, 3], "declared, and lost"
            assert cluster.machines[name].lifecycle.state is State.VOTER
        declare(cluster.client(back[1]), 4)
        assert all(declared(cluster, name) == [1, 2, 3, 4] for name in back), "two of three logs are enough"
        voters = [cluster.machines[name].placement.voters for name in back]
        assert voters[0] == voters[1] and set(map(tuple, voters[0].values())) == {tuple(ALL)}


def nothing_is_shown_that_is_not_on_disk(kind=StoredBrokerMachine):
    """While two disks stall, nothing that is declared takes effect anywhere, nor after a power cut then."""
    cluster = StoredCluster(kind=kind)
    declare(cluster.client("b1"), 1)
    cluster.stalled = {"b2", "b3"}
    client = cluster.client("b1")
    client.send(Command(9, "declare_exchange", {"name": "e9", "type": "direct", "durable": True}))
    assert not client.take(Reply), "answered, and not on disk"
    for name in ALL:
        assert "e9" not in [one.name for one in cluster.machines[name].wiring.exchanges()], "shown, and not on disk"
    cluster.resume("b2")
    for name, shown in (("b1", True), ("b2", True), ("b3", False)):
        assert ("e9" in [one.name for one in cluster.machines[name].wiring.exchanges()]) is shown, f"at {name}"
    cluster.resume("b3")
    assert "e9" in [one.name for one in cluster.machines["b3"].wiring.exchanges()]
    declare(client, 2)


def it_speaks_when_its_log_is_open(kind=StoredBrokerMachine):
    """A broker whose disk stalls at its start says nothing to anybody but its store."""
    cluster = StoredCluster(kind=kind)
    declare(cluster.client("b1"), 1)
    cluster.cut_power("b3")
    cluster.stalled = {"b3"}
    cluster.traffic.clear()
    cluster.come_back("b3")
    cluster.pass_time(1000)
    said = [(to, frame) for name, to, frame in cluster.traffic if name == "b3" and to != "b3.store"]
    assert said == [], "it spoke before its life was on disk"
    cluster.resume("b3")
    cluster.pass_time(1000)
    assert any(name == "b3" and is_sequencer(to) for name, to, _ in cluster.traffic)
    declare(cluster.client("b3"), 2)


def test_what_was_declared_survives_a_power_cut_of_all():
    power_is_cut()


def test_nothing_is_shown_that_is_not_on_disk():
    nothing_is_shown_that_is_not_on_disk()


def test_a_queue_is_as_durable_as_it_was_declared():
    """With stores it may be; declared otherwise it is another, and both are shown as they are, after a stop as well."""
    cluster = StoredCluster()
    client = cluster.client("b1")
    assert not client.command("declare_queue", name="lasting", durable=True).code
    assert not client.command("declare_queue", name="passing").code
    assert client.command("declare_queue", name="lasting", durable=True).value == {"changed": False}
    for name, durable in (("lasting", False), ("passing", True)):
        refused = cluster.client("b2").command("declare_queue", name=name, durable=durable)
        assert refused.code == "exists" and f"durable={not durable}" in refused.text
    cluster.blackout(*ALL)
    shown = {one.name: one.durable for one in cluster.machines["b3"].wiring.queues()}
    assert shown["lasting"] is True


class WatchedCluster(StoredCluster):
    """Observers of its brokers are told of their stores."""

    def __init__(self):
        self.recorders = {}
        super().__init__()

    def broker(self, name, inc, blank=False, **options):
        recorder = self.recorders[name] = BrokerRecorder()
        return super().broker(name, inc, blank, **{**options, "observers": (recorder,)})

    def told(self, broker, *words):
        return [word for word in self.recorders[broker].book if word[0] in words]


def test_observers_hear_that_a_store_is_open_and_has_no_room():
    cluster = WatchedCluster()
    assert cluster.told("b1", "store") == [("store", 0, False, 0)]
    declare(cluster.client("b1"), 1)
    life = cluster.machines["b1"].keeper.life
    cluster.blackout(*ALL)
    ((_, before, blank, entries),) = cluster.told("b1", "store")
    assert (before, blank) == (life, False) and entries > 3
    for pressed in (True, True, False):
        cluster.post("b1.store", "b1", Room(100, pressed))
        cluster.settle()
    assert cluster.told("b1", "pressed") == [("pressed", True), ("pressed", False)]


def test_what_happens_in_a_store_is_a_fact_of_its_broker_for_the_tap():
    """What the next life has found in its store."""
    cluster = CapturedCluster()
    assert not cluster.client("b1").command("declare_queue", name="lasting", durable=True).code
    assert not cluster.client("b1").command("delete_queue", name="lasting").code
    cluster.pass_time(500)
    cluster.blackout(*ALL)
    (found,) = [fact for fact in cluster.facts("b1") if fact.what == "store_recovered"]
    assert json.loads(found.detail)["bytes"]["tx"] > 0 and found.broker == "b1"


class CapturedCluster(StoredCluster):
    """What its brokers have for the tap."""

    def __init__(self):
        self.captures = {}
        super().__init__()

    def broker(self, name, inc, blank=False, **options):
        capture = self.captures[name] = BrokerCapture(name, inc, self.timing, self.limits)
        return super().broker(name, inc, blank, **{**options, "observers": (capture,)})

    def facts(self, broker):
        buffers = self.captures[broker].reporter.buffers
        return [decode_fact(fact) for name, one in buffers.items() if name.startswith("@") for fact in one.facts]


def test_a_broker_speaks_when_its_log_is_open():
    it_speaks_when_its_log_is_open()


def test_a_broker_that_comes_back_votes_at_once():
    cluster = StoredCluster()
    declare(cluster.client("b1"), 1)
    cluster.cut_power("b2")
    declare(cluster.client("b1"), 2)
    cluster.come_back("b2")
    cluster.pass_time(1000)
    broker = cluster.machines["b2"]
    assert broker.lifecycle.state is State.VOTER and broker.keeper.log_inc == 1 and broker.keeper.opened == 1
    cluster.cut_power("b3")
    cluster.pass_time(5000)
    declare(cluster.client("b2"), 3)
    assert declared(cluster, "b2") == [1, 2, 3], "with b3 away its vote is needed, and counts"
    assert not any(isinstance(frame, UpdateStart) for _, _, frame in cluster.traffic)


def a_log_that_is_too_old_is_given_up(kind=StoredBrokerMachine):
    """A broker that was away for so long that nobody has what it lacks: its next life begins blank, and is updated."""
    cluster = StoredCluster(kind=kind, limits=Limits(retained_entries=0))
    declare(cluster.client("b1"), 1)
    cluster.cut_power("b2")
    cluster.pass_time(5000)
    declare(cluster.client("b1"), 2)
    cluster.come_back("b2")
    cluster.pass_time(1000)
    assert "too far behind" in cluster.retired["b2"]
    cluster.cut_power("b2")
    cluster.come_back("b2")
    cluster.pass_time(3000)
    assert declared(cluster, "b2") == [1, 2], "it is too old for ever"
    assert cluster.machines["b2"].lifecycle.state is State.VOTER
    cluster.blackout("b2", "b3")
    assert declared(cluster, "b2") == declared(cluster, "b3") == [1, 2]


def test_a_log_that_is_too_old_is_given_up():
    a_log_that_is_too_old_is_given_up()


def it_comes_back_by_what_was_kept(takeover=False):
    """A broker is away for longer than it takes to evict it; `takeover`: meanwhile another sequencer comes to lead."""
    cluster = StoredCluster()
    declare(cluster.client("b1"), 1)
    cluster.cut_power("b2")
    cluster.pass_time(5000)
    for number in range(2, 12):
        declare(cluster.client("b1"), number)
    if takeover:
        cluster.add_sequencer()
        cluster.kill("sequencer")
        cluster.pass_time(5000)
        declare(cluster.client("b1"), 12)
    cluster.traffic.clear()
    cluster.come_back("b2")
    cluster.pass_time(3000)
    assert "b2" not in cluster.retired, "it was told to forget what it has"
    assert not any(isinstance(frame, UpdateStart) for _, _, frame in cluster.traffic)
    assert declared(cluster, "b2") == declared(cluster, "b1")
    broker = cluster.machines["b2"]
    assert broker.lifecycle.state is State.VOTER and broker.keeper.log_inc == 1
    declare(cluster.client("b2"), 20)
    stream = cluster.leader().order.streams[CLUSTER]
    assert stream.base == stream.held == stream.commit, "nobody is away, and something is kept"


@pytest.mark.parametrize("takeover", [False, True])
def test_a_broker_that_was_away_comes_back_by_what_was_kept(takeover):
    it_comes_back_by_what_was_kept(takeover)


def a_little_behind_after_a_power_cut(kind=StoredBrokerMachine):
    """One lost power before the others, and those have written checkpoints since: it needs no update for that."""
    cluster = StoredCluster(kind=kind, checkpoint_bytes=200)
    for number in range(1, 10):
        declare(cluster.client("b1"), number)
    cluster.cut_power("b3")
    end = cluster.machines["b1"].keeper.end
    for number in range(10, 20):
        declare(cluster.client("b1"), number)
    cluster.loads.clear()
    cluster.traffic.clear()
    cluster.blackout(*ALL)
    assert sum(effect.checkpoint > 0 for effect in cluster.loads) == 3
    assert "b3" not in cluster.retired, "it was told to forget what it has"
    assert not any(isinstance(frame, UpdateStart) for _, _, frame in cluster.traffic)
    assert all(declared(cluster, name) == list(range(1, 20)) for name in ALL)
    assert end < cluster.machines["b3"].keeper.end


def test_one_that_is_a_little_behind_after_a_power_cut_needs_no_update():
    a_little_behind_after_a_power_cut()


def test_a_log_that_is_read_back_to_its_checkpoint_only_is_found(monkeypatch):
    monkeypatch.setattr(ToyDisk, "before", lambda self, log, checkpoint: [])
    with pytest.raises(AssertionError, match="to forget"):
        a_little_behind_after_a_power_cut()


def test_a_broker_without_its_disk_begins_anew_and_what_it_was_told_is_kept():
    cluster = StoredCluster()
    declare(cluster.client("b1"), 1)
    cluster.cut_power("b3")
    cluster.pass_time(5000)
    del cluster.disks["b3"]
    declare(cluster.client("b1"), 2)
    cluster.blank.add("b3")
    cluster.come_back("b3")
    cluster.pass_time(3000)
    assert declared(cluster, "b3") == [1, 2] and not cluster.machines["b3"].keeper.blank
    assert kinds(cluster, "b3").count(CHECKPOINT) >= 1, "what an update brought is on disk"
    cluster.blank.clear()
    declare(cluster.client("b3"), 3)
    cluster.blackout("b1", "b3")
    assert declared(cluster, "b1") == declared(cluster, "b3") == [1, 2, 3]


def test_a_checkpoint_stands_for_what_was_before_it():
    cluster = StoredCluster(checkpoint_bytes=200)
    client = cluster.client("b1")
    for number in range(1, 31):
        declare(client, number)
    assert kinds(cluster, "b1").count(CHECKPOINT) >= 2
    cluster.blackout("b1", "b3")
    loaded = {effect.checkpoint for effect in cluster.loads if effect.stream == CLUSTER}
    assert loaded and 0 not in loaded, "what came back began with a checkpoint"
    assert declared(cluster, "b1") == declared(cluster, "b3") == list(range(1, 31))


def test_small_events_count_as_what_it_takes_to_apply_them_again():
    cluster = StoredCluster(checkpoint_bytes=20 * ENTRY_BYTES)
    client = cluster.client("b1")
    for number in range(1, 41):
        declare(client, number)
    assert 1 <= kinds(cluster, "b1").count(CHECKPOINT) <= 10


def test_a_checkpoint_takes_what_is_held_behind_it_along():
    cluster = StoredCluster()
    declare(cluster.client("b1"), 1)
    cluster.stalled = {"b2", "b3"}
    client = cluster.client("b1")
    client.send(Command(9, "declare_exchange", {"name": "e9", "type": "direct", "durable": True}))
    assert not client.take(Reply), "answered, and not on disk"
    broker = cluster.machines["b1"]
    assert broker.keeper.end == broker.keeper.commit + 1
    end = broker.keeper.end
    cluster.post("b1.store", "b1", Ahead(TX, 1 << 20))
    cluster.settle()
    assert kinds(cluster, "b1")[-2:] == [CHECKPOINT, 2]
    cluster.cut_power("b1")
    cluster.come_back("b1")
    assert cluster.machines["b1"].keeper.end == end, "held, acknowledged, and forgotten"


# ---- the part alone


def broker_at(*frames):
    machine = StoredBrokerMachine("b1", 20, ALL)
    effects = machine.step(PeerUp("b1.store"))
    for frame in frames:
        effects += machine.step(Received("b1.store", frame))
    return machine, effects


def test_a_stream_is_taken_read_and_opened():
    machine, effects = broker_at()
    assert effects == [Send("b1.store", Take(CLUSTER, 20))]
    taken = Taken(CLUSTER, 20, 10, 10, False, (3, 9), 64, 100)
    assert machine.step(Received("b1.store", taken)) == [Load(CLUSTER, 64, 100, RETAINED_BYTES)]


@pytest.mark.parametrize("records", [None, [(100, 2, b"nonsense")]])
def test_a_log_that_cannot_be_read_does_not_vote(records):
    machine, _ = broker_at(Taken(CLUSTER, 20, 10, 10, False, (3, 9), 64, 100))
    machine.step(Loaded(CLUSTER, records or [], hurt=records is None))
    assert machine.keeper.blank and machine.keeper.log_inc == 20 and machine.view.promised == (3, 9)


def test_a_hurt_log_does_not_vote():
    machine, effects = broker_at(Taken(CLUSTER, 20, 10, 10, False, (3, 9), 64, 100, hurt=True))
    assert machine.keeper.blank and not any(isinstance(effect, Load) for effect in effects)


def test_a_broken_link_to_the_store_ends_the_process():
    opened = [Taken(CLUSTER, 20, 0, 0, False, (0, 0)), Written(0, [])]
    machine, _ = broker_at(*opened)
    (effect,) = machine.step(PeerDown("b1.store"))
    assert isinstance(effect, Retire)
    machine, _ = broker_at(*opened)
    (effect,) = machine.step(Received("b1.store", Ousted(CLUSTER, 30)))
    assert isinstance(effect, Retire)


# ---- planted bugs


class AppliesBeforeTheFlush(Keeper):
    """What is held counts as written, for this keeper."""

    def append(self, frame):
        committed, refusal = super().append(frame)
        if self.durability is not None:
            self.durability.flushed = self.end
            committed += self.wrote()
        return committed, refusal


class SpeaksAtOnce(StoredBrokerMachine):
    def _took(self, promises):
        super()._took(promises)
        self.store.opened = True
        self._begin()


def test_an_entry_applied_before_the_flush_is_found(monkeypatch):
    monkeypatch.setattr("mantamq.protocol.broker.store_link.Keeper", AppliesBeforeTheFlush)
    with pytest.raises(AssertionError, match="and not on disk"):
        nothing_is_shown_that_is_not_on_disk()


class KeepsItsLog(StoredBrokerMachine):
    def _evicted(self, peer, frame):
        self.lifecycle.evicted(peer, frame)


def test_a_log_that_is_never_given_up_is_found():
    with pytest.raises(AssertionError, match="too old for ever"):
        a_log_that_is_too_old_is_given_up(KeepsItsLog)


def test_a_new_leader_that_fetches_too_little_is_found(monkeypatch):
    """It takes what those lack that are here, and not what is kept for one that is away."""
    source = Election.source

    def near(self, stream, *args):
        found = source(self, stream, *args)
        return found if found is None or found[1] is None else (found[0], found[1], found[1].commit + 1)

    monkeypatch.setattr(Election, "source", near)
    with pytest.raises(AssertionError, match="to forget"):
        it_comes_back_by_what_was_kept(takeover=True)


def test_a_broker_that_speaks_too_soon_is_found():
    with pytest.raises(AssertionError, match="it spoke before"):
        it_speaks_when_its_log_is_open(SpeaksAtOnce)


def test_a_broker_that_gives_its_log_up_says_nothing_more_of_it_and_ends_whoever_leads():
    cluster = StoredCluster()
    cluster.stalled = {"b3"}
    broker = cluster.machines["b3"]
    leader, higher = broker.view.leader, (broker.view.promised[0] + 1, 9)
    said = broker.step(Received(leader, Evicted("too far behind", forget=True))) + broker.step(Flush())
    said += broker.step(PeerUp("sequencer9")) + broker.step(Received("sequencer9", Prepare(higher)))
    said += broker.step(Tick(broker.now_ms + 5_000)) + broker.step(Flush())
    (write,) = [effect.frame for effect in said if isinstance(effect, Send)]
    assert [kind for kind, _, _ in write.records] == [OPENED], "and nothing else, to anybody"
    cluster._carry_out("b3", said)
    cluster.resume("b3")
    assert cluster.retired["b3"] == "too far behind"


def test_wiring_that_is_not_restored_is_found(monkeypatch):
    resume = cluster_state.ClusterState.resume

    def forgets(self, *args):
        resume(self, *args)
        self.wiring = Wiring()

    monkeypatch.setattr(cluster_state.ClusterState, "resume", forgets)
    with pytest.raises(AssertionError, match="declared, and lost"):
        power_is_cut()


def test_a_checkpoint_without_its_tail_is_found(monkeypatch):
    monkeypatch.setattr("mantamq.protocol.broker.store_link.tail_of", lambda keeper: None)
    with pytest.raises(AssertionError):
        test_a_checkpoint_takes_what_is_held_behind_it_along()


def test_a_broker_that_is_sent_away_before_it_has_returned_does_not_count_as_serving():
    """Whoever starts the cluster tells clients of those that have returned."""
    cluster = StoredCluster()
    cluster.cut_power(*ALL)
    cluster.stalled = {"b1", "b2"}
    cluster.come_back(*ALL)
    broker = cluster.machines["b3"]
    assert broker.report().returning is True
    broker.step(Received(broker.view.leader, Evicted("an old copy", forget=True)))
    broker.lifecycle.retire("an old copy")
    assert broker.report().returning is True and not broker.report().blank


def test_a_store_is_told_which_queues_there_are_when_its_broker_knows_all_that_was_complete():
    cluster = StoredCluster()
    client = cluster.client("b1")
    client.send(Command(1, "declare_queue", {"name": "keep", "durable": True}))
    client.send(Command(2, "declare_queue", {"name": "gone"}))
    assert len(client.take(Reply)) == 2
    cluster.traffic.clear()
    cluster.blackout(*ALL)
    (queue,) = [one.id for one in cluster.machines["b1"].wiring.queues() if one.durable]
    said = [(peer, to, frame.streams) for peer, to, frame in cluster.traffic if isinstance(frame, Expected)]
    assert sorted(said) == [(broker, f"{broker}.store", [queue]) for broker in ALL], "once each"
