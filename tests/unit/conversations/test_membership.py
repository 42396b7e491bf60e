"""Members join and leave: who votes, when, and what each side says (`sequencer.md` K4, `design.md` 8)."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import MemoryCluster
from mantamq.protocol.broker.lifecycle import LEAVING, LEFT
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.lock.ownership import OwnershipMachine
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.log.quorum import change, held_by_majority, majority, recovery_quorum
from mantamq.protocol.machine import (
    Close,
    Dismiss,
    Drain,
    Flush,
    Members,
    Multicast,
    PeerDown,
    PeerUp,
    Received,
    Retire,
    Send,
)
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.sequencer.election import PREPARING, Election
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.sequencer.recovery import mistaken
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.wire.client_frames import MembersChanged, Open
from mantamq.protocol.wire.events import (
    CLUSTER,
    ZERO,
    Enqueue,
    Entry,
    Member,
    Own,
    Rejoin,
    Start,
    decode_event,
    encode_event,
)
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import (
    Ack,
    Append,
    Heartbeat,
    Leave,
    Left,
    LogReport,
    Nack,
    Promise,
    Request,
    Results,
    Suspect,
)
from mantamq.protocol.wire.queue_frames import GivenUp, GiveUp, Interest, OwnerIs, Void

ONE, TWO = (1, 7), (2, 8)
THREE = ["b1", "b2", "b3"]


def own(event: Any, seq: int = 1, ballot: tuple[int, int] = ONE) -> Entry:
    """An entry of the sequencer's."""
    return Entry(ballot, seq, "", 0, 0, encode_event(event))


# ---- who votes


@pytest.mark.parametrize("count", range(1, 8))
def test_each_majority_meets_each_recovery_quorum(count):
    voters = [f"b{i}" for i in range(count)]
    assert majority(voters) + recovery_quorum(voters) == count + 1
    assert 2 * majority(voters) > count


def test_a_change_is_carried_out_once():
    voters = ["b1", "b2"]
    for _ in range(2):
        change(voters, Member("b3", 1, True))
    assert voters == THREE
    for _ in range(2):
        change(voters, Member("b1", 1, False))
    assert voters == ["b2", "b3"]


def test_only_voters_make_a_majority():
    assert held_by_majority(THREE, {"b1": 5, "b2": 3, "b4": 9}) == 3
    assert held_by_majority(THREE, {"b1": 5, "b4": 9}) == 0
    assert held_by_majority([], {"b1": 5}) == 0


# ---- a keeper


def test_a_keeper_reports_the_voters_before_and_after_a_change():
    one = Keeper("q#1", "b1", voters=["b1"])
    entries = [own(Start(ONE), 1), own(Member("b2", 5, True), 2), own(Member("b3", 6, True), 3)]
    one.append(Append(ONE, "q#1", 0, ZERO, 1, 0, entries[:2]))
    said = one.log_report()
    assert (said.voters, said.change, said.changed, said.uncommitted_incs) == (["b1"], 2, ["b1", "b2"], {"b2": 5})
    one.append(Append(ONE, "q#1", 2, ONE, 1, 0, entries[2:]))
    said = one.log_report()
    assert (said.voters, said.change, said.changed) == (["b1", "b2"], 3, THREE), "the one before must be committed"
    one.append(Append(ONE, "q#1", 3, ONE, 3, 0, []))
    said = one.log_report()
    assert (said.voters, said.change, said.changed, said.uncommitted_incs) == (THREE, 0, [], {})
    assert said.incs == {"b2": 5, "b3": 6}


@pytest.mark.parametrize(("inc", "joins"), [(5, True), (6, False)])
def test_only_the_incarnation_that_is_let_in_joins(inc, joins):
    one = Keeper("q#1", "b2", inc, blank=True, voters=["b1"])
    one.append(Append(ONE, "q#1", 0, ZERO, 0, 0, [own(Start(ONE), 1), own(Member("b2", 5, True), 2)]))
    assert one.log_report().joins == joins and one.blank
    one.append(Append(ONE, "q#1", 2, ONE, 2, 0, []))
    assert one.blank != joins, "committed: it votes"


def test_who_leaves_speaks_for_itself_until_it_has_left():
    one = Keeper("q#1", "b1", voters=THREE)
    one.append(Append(ONE, "q#1", 0, ZERO, 0, 0, [own(Start(ONE), 1), own(Member("b2", 5, False), 2)]))
    assert one.log_report().uncommitted_incs == {} and one.log_report().changed == ["b1", "b3"]


def test_a_learner_waits_while_the_voters_change():
    one = Keeper("q#1", "b1", voters=THREE)
    one.append(Append(ONE, "q#1", 0, ZERO, 0, 0, [own(Start(ONE), 1), own(Member("b4", 5, True), 2)]))
    one.quorum_needed = 1
    assert one.learn(Ack(ONE, "q#1", "b2", 2, 0)) == []
    one.append(Append(ONE, "q#1", 2, ONE, 2, 0, [Entry(ONE, 3, "o", 1, 1, b"x")]))
    assert one.learn(Ack(ONE, "q#1", "b2", 3, 0)) == [], "two of four"
    assert len(one.learn(Ack(ONE, "q#1", "b4", 3, 0))) == 1


def test_a_blank_keeper_learns_who_voted_in_the_beginning():
    blank = Keeper("q#1", "b4", 1, blank=True, voters=["b9"])
    frame = Append(ONE, "q#1", 0, ZERO, 0, 0, [own(Start(ONE))], voters=THREE)
    blank.append(frame)
    assert blank.voters == THREE
    kept = Keeper("q#1", "b1", 1, voters=["b1"])
    kept.append(frame)
    assert kept.voters == ["b1"], "who was there knows better: later voters may have been told"


def test_an_update_brings_the_end_of_the_log():
    """A keeper whose log may be adopted must be able to serve voters that are a little behind."""
    giver = Keeper("q#1", "b1", voters=THREE)
    giver.append(Append(ONE, "q#1", 0, ZERO, 4, 1, [own(Start(ONE), n) for n in range(1, 6)]))
    assert giver.base == 1
    taker = Keeper("q#1", "b4", 1, blank=True)
    taker.restore(giver.update("b1.r0", "b4.r0", None))
    assert (taker.base, taker.commit, taker.end, taker.voters) == (1, 4, 4, THREE)
    taker.promise(ONE)
    assert (taker.end_seq, taker._base_seq, taker._base_ballot) == (4, 1, ONE)
    assert [entry.seq for entry in taker._log.values()] == [2, 3, 4]


# ---- the sequencer


class Cluster:
    """A sequencer, and what it is told of the cluster stream and of one queue's, without keepers."""

    def __init__(self, members: list[str]) -> None:
        self.machine = SequencerMachine(7, members)
        self.said: list[tuple[str, Frame]] = []
        for name in members:
            self.machine.step(PeerUp(name))
            self.subscribe(name, CLUSTER)
            self.subscribe(name, "q#1", voters=members)
        self.hold(members, 1)

    def tell(self, peer: str, frame: Frame) -> None:
        for effect in [*self.machine.step(Received(peer, frame)), *self.machine.step(Flush())]:
            if isinstance(effect, Send):
                self.said.append((effect.peer, effect.frame))
            elif isinstance(effect, Multicast):
                self.said += [(peer, effect.frame) for peer in effect.peers]

    def subscribe(self, name: str, stream: str, inc: int = 1, **more: Any) -> None:
        peer = name if stream == CLUSTER else f"{name}.r0"
        self.tell(peer, LogReport(stream, name, more.pop("have", 0), more.pop("ballot", ZERO), log_inc=inc, **more))

    def hold(self, names: list[str], index: int, streams: tuple[str, ...] = (CLUSTER, "q#1")) -> None:
        for stream in streams:
            for name in names:
                peer = name if stream == CLUSTER else f"{name}.r0"
                self.tell(peer, Ack((1, 7), stream, name, index, min(index, self.of(stream).commit)))

    def of(self, stream: str = CLUSTER) -> Stream:
        return self.machine.order.streams[stream]

    def events(self, stream: str = CLUSTER) -> list[Any]:
        """The members' comings and goings, and what else the sequencer has ordered behind its start."""
        return [decode_event(e.event) for i, e in sorted(self.of(stream).log.items()) if not e.origin and i > 1]

    def left(self) -> list[str]:
        return [peer for peer, frame in self.said if isinstance(frame, Left)]


def test_a_broker_joins_the_cluster_then_its_queues():
    cluster = Cluster(THREE)
    for stream in (CLUSTER, "q#1"):
        cluster.subscribe("b4", stream, 5, blank=True)
        assert cluster.events(stream) == [], "it has not said that it holds anything"
    cluster.hold(["b4"], 1, ("q#1",))
    assert cluster.events("q#1") == [], "it is no member yet"
    cluster.hold(["b4"], 1, (CLUSTER,))
    assert cluster.events() == [Member("b4", 5, True)]
    cluster.hold(["b4"], 1, ("q#1",))
    assert cluster.events("q#1") == [], "another sequencer may not find it, and would see it off again"
    cluster.hold(["b4", "b1"], 2, (CLUSTER,))
    assert cluster.of().commit == 1, "two of those who vote before must hold it"
    cluster.hold(["b4"], 1, ("q#1",))
    assert cluster.events("q#1") == [], "it may never be one"
    cluster.hold(["b2"], 2, (CLUSTER,))
    assert (cluster.of().commit, cluster.of().voters) == (2, [*THREE, "b4"])
    assert cluster.machine.order.members == cluster.machine.detector.members == [*THREE, "b4"]
    assert cluster.events("q#1") == [Member("b4", 5, True)], "what waited for that"


def test_what_is_behind_a_change_is_for_the_voters_after_it():
    cluster = Cluster(THREE)
    cluster.machine.order.members[:] = [*THREE, "b4"]
    cluster.subscribe("b4", "q#1", 5, blank=True)
    cluster.hold(["b4"], 1, ("q#1",))
    cluster.tell("o", Request("o", 1, 1, [("q#1", b"x")]))
    cluster.hold(["b1", "b2"], 3, ("q#1",))
    assert cluster.of("q#1").commit == 2, "the change itself; two of four are no majority of what follows"
    cluster.hold(["b4"], 3, ("q#1",))
    assert cluster.of("q#1").commit == 3


def test_one_change_at_a_time():
    cluster = Cluster(["b1"])
    for name in ("b2", "b3"):
        cluster.subscribe(name, CLUSTER, 5, blank=True)
    cluster.hold(["b2", "b3"], 1, (CLUSTER,))
    assert cluster.events() == [Member("b2", 5, True)]
    cluster.hold(["b1"], 2, (CLUSTER,))
    assert cluster.events() == [Member("b2", 5, True), Member("b3", 5, True)]
    cluster.hold(["b1"], 3, (CLUSTER,))
    assert cluster.of().voters == ["b1", "b2"] and cluster.of().commit == 2, "two of two must hold the next"


def test_a_change_waits_for_the_terms_first_commit():
    cluster = Cluster(THREE)
    cluster.of().start = 2  # as if it were still on its way
    cluster.subscribe("b4", CLUSTER, 5, blank=True)
    cluster.hold(["b4"], 1, (CLUSTER,))
    assert cluster.events() == []


def test_another_incarnation_of_who_joins_has_to_return():
    cluster = Cluster(THREE)
    cluster.subscribe("b4", CLUSTER, 5, blank=True)
    cluster.hold(["b4"], 1, (CLUSTER,))
    cluster.subscribe("b4", CLUSTER, 6, blank=True)
    cluster.hold(["b4"], 2, (CLUSTER,))
    assert cluster.events() == [Member("b4", 5, True), Rejoin("b4", 6)]
    cluster.hold(["b1", "b2"], 2, (CLUSTER,))
    assert not cluster.of().keepers["b4"].voting, "only the entry gives it its vote"


def test_a_broker_leaves_its_queues_then_the_cluster():
    cluster = Cluster(THREE)
    leave = Leave("b3", 1, ["q#1"], 1)
    cluster.tell("b3", leave)
    (gone,) = cluster.events("q#1")
    assert (gone.broker, gone.present) == ("b3", False) and gone.inc > 1
    assert cluster.events() == []
    cluster.hold(["b1", "b2"], 2, ("q#1",))
    assert cluster.of("q#1").voters == ["b1", "b2"] and "b3" not in cluster.of("q#1").keepers
    cluster.hold(["b1"], 2, ("q#1",))
    assert cluster.events() == [], "if only b1 knows it as committed, b2 alone could not lead on"
    cluster.hold(["b2"], 2, ("q#1",))
    (gone,) = cluster.events()
    assert (gone.broker, gone.present) == ("b3", False)
    cluster.tell("b3", leave)
    assert cluster.left() == []
    cluster.hold(["b1", "b2"], 2, (CLUSTER,))
    cluster.tell("b3", leave)
    assert cluster.of().voters == ["b1", "b2"] and cluster.left() == [], "it may be needed to commit it anew"
    cluster.hold(["b1", "b2"], 2, (CLUSTER,))
    assert cluster.left() == ["b3"]
    cluster.tell("b1", leave)
    assert cluster.left() == ["b3", "b1"], "whoever asks is told"


def test_all_replicas_say_that_they_know_a_change_as_committed_though_nothing_follows():
    cluster = MemoryCluster(replicas=1)
    assert cluster.client("b1").command("declare_queue", name="q").code == ""
    (stream,) = [s for s in cluster.machines["sequencer"].order.streams.values() if s.name != CLUSTER]
    cluster.pass_time(100)
    assert [keeper.applied for keeper in stream.keepers.values()] == [stream.start] * 3
    cluster.machines["sequencer"].order.append(stream, encode_event(Member("b4", 1, False)))
    cluster.pass_time(300)
    assert [keeper.applied for keeper in stream.keepers.values()] == [stream.start + 1] * 3


def test_who_leaves_names_all_queues_first():
    """One declared behind its word may have it among the voters."""
    cluster = Cluster(THREE)
    cluster.tell("o", Request("o", 1, 1, [(CLUSTER, b"a declaration")]))
    cluster.hold(THREE, 2, (CLUSTER,))
    cluster.tell("b3", Leave("b3", 1, [], 1))
    assert cluster.events() == []
    cluster.tell("b3", Leave("b3", 1, ["q#1"], 2))
    for _ in range(2):  # they hold it, then they know it
        cluster.hold(["b1", "b2"], 2, ("q#1",))
    assert [event.broker for event in cluster.events()] == ["b3"]


def test_who_is_leaving_the_cluster_does_not_get_into_a_queue():
    cluster = Cluster(THREE)
    cluster.of("q#1").voters = ["b1", "b2"]
    cluster.machine.order.append(cluster.of(), encode_event(Member("b3", 1, False)))
    cluster.of().change, cluster.of().changed = 2, ["b1", "b2"]  # an earlier sequencer began it
    cluster.subscribe("b3", "q#1", 2, blank=True)
    cluster.hold(["b3"], 1, ("q#1",))
    assert cluster.events("q#1") == []


def test_nobody_leaves_a_stream_that_the_others_cannot_keep_up():
    cluster = Cluster(THREE)
    del cluster.of("q#1").keepers["b2"]
    cluster.tell("b3", Leave("b3", 1, ["q#1"], 1))
    assert cluster.events("q#1") == [], "b1 alone is no majority of two"


def test_the_last_voter_stays():
    cluster = Cluster(["b1"])
    cluster.tell("b1", Leave("b1", 1, ["q#1"], 1))
    assert cluster.events("q#1") == cluster.events() == []


def test_only_the_dead_are_dismissed_by_others():
    cluster = Cluster(THREE)
    cluster.tell("b1", Leave("b3", 0, ["q#1"], 1))
    assert not cluster.machine.membership.leaving
    cluster.machine.keepers.evict("b3")
    end = cluster.of().end
    cluster.hold(["b1", "b2"], end)
    cluster.tell("b1", Leave("b3", 0, ["q#1"], end))
    assert cluster.events("q#1")[-1] == Member("b3", cluster.machine.evictions.out["b3"], False)


def test_a_voter_of_a_queue_that_is_no_member_is_taken_out():
    cluster = Cluster(THREE)
    cluster.machine.order.members[:] = ["b1", "b2"]
    cluster.machine.membership.resume(cluster.of("q#1"))
    assert [event.broker for event in cluster.events("q#1")] == ["b3"]


def test_who_leaves_is_not_let_in_again():
    cluster = Cluster(THREE)
    cluster.tell("b3", Leave("b3", 1, ["q#1"], 1))
    cluster.hold(["b1", "b2"], 2, ("q#1",))
    cluster.subscribe("b3", "q#1", 2, blank=True)
    cluster.subscribe("b3", "q#1", have=1, ballot=ONE)
    assert "b3" not in cluster.of("q#1").keepers


def test_a_newer_incarnation_has_not_asked_to_leave():
    cluster = Cluster(THREE)
    cluster.tell("b3", Leave("b3", 1, ["q#1"], 0))
    cluster.subscribe("b3", CLUSTER, 2, blank=True)
    assert not cluster.machine.membership.leaving


# ---- taking over


def voice(voter: str, have: int, ballot: tuple[int, int] = ONE, **more: Any) -> tuple[str, LogReport]:
    return f"{voter}.r0", LogReport("q#1", voter, have, ballot, TWO, log_inc=more.pop("log_inc", 1), **more)


def adopted(reports: dict[str, tuple[str, LogReport]]) -> str | None:
    """Whose log is adopted; None: they are not enough."""
    stream = Stream("q#1")
    stream.reports = reports
    source = Election(THREE, PREPARING).source(stream, {}, THREE, set(), 0)
    return source[0] if source is not None else None


def test_a_change_under_way_needs_a_quorum_of_both():
    four = {"voters": THREE, "change": 9, "changed": [*THREE, "b4"]}
    one = {"b1": voice("b1", 9, **four)}
    assert adopted(one) is None
    joiner = voice("b4", 9, blank=True, joins=True, **four)
    assert adopted(one | {"b4": joiner}) is None, "one of the three before"
    assert adopted(one | {"b2": voice("b2", 8, voters=THREE)}) == "b1.r0"


@pytest.mark.parametrize(("inc", "counts"), [(1, True), (2, False)])
def test_who_joins_counts_before_it_knows_that_it_does(inc, counts):
    """Two vote, the third joins; the other voter has died, and the joiner was not told of its own joining."""
    two = ["b1", "b2"]
    reports = {
        "b1": voice("b1", 9, voters=two, change=9, changed=THREE, uncommitted_incs={"b3": 1}),
        "b2": voice("b2", 0, blank=True, log_inc=2, voters=two),
        "b3": voice("b3", 8, blank=True, log_inc=inc, voters=two),
    }
    assert adopted(reports) == ("b1.r0" if counts else None), "another incarnation may have held what it does not now"


def test_a_change_that_anybody_knows_as_committed_needs_the_voters_after_it():
    four = [*THREE, "b4"]
    one = {"b1": voice("b1", 9, voters=THREE, change=9, changed=four)}
    told = voice("b4", 9, commit=9, voters=four, incs={"b4": 1})
    assert adopted(one | {"b4": told}) is not None


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({}, True),
        ({"blank": True}, False),
        ({"blank": True, "joins": True}, True),
        ({"blank": True, "log_inc": 2}, True),
    ],
)
def test_whose_word_counts(more, counts):
    stream = Stream("q#1")
    stream.reports = {"b1": voice("b1", 9, **more), "b2": voice("b2", 9, incs={"b1": more.get("log_inc", 0)})}
    assert ("b1" in Election(THREE, PREPARING).logs(stream)) == counts


def test_of_equal_logs_the_one_that_goes_back_furthest():
    assert adopted({"b1": voice("b1", 9, base=7, voters=THREE), "b2": voice("b2", 9, base=3, voters=THREE)}) == "b2.r0"


def test_no_log_at_all_takes_a_majority():
    stream = Stream("q#1")
    reign = Election(["b1", "b2", "b3", "b4"], PREPARING)
    for count, name in enumerate(["b1", "b2", "b3"], 1):
        reign.promises[name] = Promise(TWO, name, 1, False, [])
        found = reign.source(stream, {}, reign.members, set(), 0)
        assert (found is not None) == (count == 3), "a queue's voters may be fewer, and others, than the members"


@pytest.mark.parametrize(("uncommitted_incs", "gives_up"), [({"b2": 9}, True), ({"b2": 1}, False), ({"b3": 9}, False)])
def test_a_promise_that_was_worth_nothing(uncommitted_incs, gives_up):
    """Two vote: b2 had promised, and died; it was back under the older ballot, by b1's log, before we knew of that."""
    machine = SequencerMachine(8, ["b1", "b2"], leading=False)
    machine.order.ballot = TWO
    stream = machine.order.streams["q#1"] = Stream("q#1", ["b1", "b2"])
    stream.counted, stream.start, stream.end = {"b2": 1}, 5, 5
    report = voice("b1", 9, uncommitted_incs=uncommitted_incs)[1]
    assert ("b2 had lost its log" in mistaken(machine.order, stream, report)) == gives_up
    stream.commit = 5
    assert not mistaken(machine.order, stream, report), "it has met a majority"


def test_a_promise_counts_for_its_own_ballot_only():
    """A rival won; when it is gone in turn, what was promised to the ballot before is worth nothing: more was held since."""
    machine = SequencerMachine(8, THREE, leading=False)

    def suspect(ballot: tuple[int, int]) -> tuple[int, int]:
        for name in ("b1", "b2"):
            machine.step(Received(name, Suspect(ballot, name, THREE)))
        return machine.order.ballot

    first = suspect(ONE)
    machine.step(Received("b1", Promise(first, "b1", 1, False, [])))
    machine.step(Received("b3", Nack((first[0], 9))))
    machine.step(Received("b2", Promise(first, "b2", 1, False, [])))  # it was on its way
    second = suspect((first[0], 9))
    assert second > first and machine.election.role == PREPARING and machine.election.promises == {}
    machine.step(Received("b1.r0", LogReport("q#1", "b1", 0, ZERO, first, log_inc=1)))
    assert not machine.order.streams["q#1"].reports
    machine.step(Received("b1.r0", LogReport("q#1", "b1", 0, ZERO, second, log_inc=1)))
    assert machine.order.streams["q#1"].reports


# ---- a broker


def broker(*addresses: str) -> BrokerMachine:
    """b1 of three, with one replica and one client, following a sequencer."""
    machine = BrokerMachine("b1", 5, THREE)
    for peer in ("sequencer", "b1.r0", "c1"):
        machine.step(PeerUp(peer))
    machine.step(Received("sequencer", Heartbeat(ONE, 1, 0)))
    machine.step(Members({name: f"{name}:1" for name in THREE}))
    machine.step(Received("c1", Open("c")))
    return machine


def test_who_drains_sends_its_clients_away_first():
    machine = broker()
    said = machine.step(Drain())
    assert [type(effect) for effect in said] == [Send, Close, Send]
    news, close, order = said
    assert news.frame == MembersChanged({"b2": "b2:1", "b3": "b3:1"}), "those it can go to"
    assert (close.peer, close.text) == ("c1", LEAVING)
    assert (order.peer, order.frame) == ("b1.r0", GiveUp())
    machine.step(PeerUp("c2"))
    (refused,) = machine.step(Received("c2", Open("c")))
    assert isinstance(refused, Close) and refused.text == LEAVING


def test_who_drains_asks_to_leave_when_it_holds_nothing():
    machine = broker()
    machine.step(Drain())
    machine.step(PeerUp("b1.r1"))
    assert machine.step(Received("b1.r0", GivenUp())) == [], "another replica has come meanwhile"
    (ask,) = machine.step(Received("b1.r1", GivenUp()))
    assert ask == Send("sequencer", Leave("b1", 5, [], 0))
    assert machine.step(Drain()) == [ask], "again, as often as one likes"


@pytest.mark.parametrize("peer", ["sequencer", "sequencer9"])
def test_it_has_left_by_the_leaders_word(peer):
    machine = broker()
    machine.step(Drain())
    retired = [effect for effect in machine.step(Received(peer, Left("b1"))) if isinstance(effect, Retire)]
    assert retired == ([Retire(LEFT, left=True)] if peer == "sequencer" else [])


def test_the_last_broker_does_not_leave():
    machine = BrokerMachine("b1", 5, ["b1"])
    assert machine.step(Drain()) == [] and not machine.report().leaving


def test_others_are_dismissed_through_a_broker():
    machine = broker()
    assert machine.step(Dismiss("b3")) == [Send("sequencer", Leave("b3", 0, [], 0))]
    assert machine.report().left == []
    machine.step(Received("sequencer", Left("b3")))
    assert machine.report().left == ["b3"]


def test_what_is_committed_says_who_votes():
    machine = broker()
    entries = [own(Start(ONE), 1), own(Member("b4", 7, True), 2), own(Member("b2", 9, False), 3)]
    machine.step(Received("sequencer", Append(ONE, CLUSTER, 0, ZERO, 3, 0, entries)))
    assert machine.report().voters == ["b1", "b3", "b4"]
    said = machine.step(Received("sequencer", Append(ONE, CLUSTER, 3, ONE, 4, 0, [own(Member("b1", 9, False), 4)])))
    assert Retire(LEFT, left=True) in said


# ---- a queue, its replica and Ownership


def test_who_leaves_a_queue_has_no_say_and_gets_no_lock():
    state = QueueState("q#1")
    state.apply(Enqueue("c", [1, 1], [b"m"]))
    state.apply(Own("b1", 1))
    assert state.apply(Member("b1", 9, False)).effective
    assert (state.owner, state.grant, bool(state.deliveries)) == ("", 2, False), "nobody has seen what is available"
    assert not state.apply(Own("b1", 3)).effective
    state.apply(Member("b1", 20, True))
    assert state.apply(Own("b1", 3)).effective


def on_duty(machine: OwnershipMachine) -> OwnershipMachine:
    machine.step(Received("sequencer", Heartbeat(ONE, 1, 0)))
    return machine


def test_a_void_grant_is_made_to_another():
    machine = on_duty(OwnershipMachine(1))
    for name in ("b1", "b2"):
        machine.step(Received(f"{name}.r0", Interest("q#1", name, True)))
    machine.step(Flush())
    assert machine._queues["q#1"].granting == "b1"
    machine.step(Received("b2.r0", Void("q#1", "b1", 1)))
    machine.step(Flush())
    assert machine._queues["q#1"].granting == "b2"


@pytest.mark.parametrize("first", ["link", "answer"])
def test_a_grant_of_whose_end_nothing_is_heard_is_made_anew(first):
    """It was void, and who said so was heard no more: its link broke before our request was answered, or after."""
    machine = on_duty(OwnershipMachine(1))
    machine.step(Received("b1.r0", Interest("q#1", "b1", True)))
    machine.step(Flush())
    machine.step(Received("b2.r0", Interest("q#1", "b2", True)))
    happens = [PeerDown("b1.r0"), Received("sequencer", Results(1, [1]))]
    for input in happens if first == "link" else reversed(happens):
        assert machine._queues["q#1"].granting == "b1"
        machine.step(input)
        machine.step(Flush())
    assert machine._queues["q#1"].granting == "b2"
    machine.step(Received("b2.r0", OwnerIs("q#1", "b1", 1)))
    assert (machine._queues["q#1"].owner, machine._queues["q#1"].granting) == ("b1", ""), "it was not void after all"


def test_a_void_grant_takes_no_newer_interest_away():
    machine = on_duty(OwnershipMachine(1))
    machine.step(Received("b1.r0", Interest("q#1", "b1", True)))
    machine.step(Flush())
    machine.step(Received("b1.r1", Interest("q#1", "b1", True)))  # it is back
    machine.step(Received("b2.r0", Void("q#1", "b1", 1)))
    machine.step(Flush())
    assert machine._queues["q#1"].granting == "b1"
