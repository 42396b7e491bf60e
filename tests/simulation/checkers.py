"""The invariants of `sequencer.md` section 6 on order, commit and state, watched from outside.

Frames are tapped where they are sent and where they arrive; the committed log so found is replayed into the models of
`model.py`; the machines' states are compared with these. What clients see is checked in `deliveries.py`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from math import inf
from typing import Any

from mantamq.protocol.replica.status import Status
from mantamq.protocol.wire import events
from mantamq.protocol.wire.deletion_events import Dissolved
from mantamq.protocol.wire.log_frames import Ack, Append, Heartbeat, LogReport, Prepare, Request, Results
from mantamq.protocol.wire.queue_frames import Deliver

from .counts import same_counts
from .duplicates import same_ids
from .lifetimes import same_expiry
from .model import GONE, ModelQueue, ModelWiring, Violation, as_sent, declared, each
from .no_locals import sender_of
from .sender_names import same_names
from .world import World

COMPARE_SHARE = 0.06
"""Share of a machine's steps after which its whole state is compared."""


class Watcher:
    """Watches the order of a world; raises `Violation` where an invariant breaks.

    Attributes:
        logs: stream -> index -> entry, as the sequencer has sent it.
        commits: stream -> highest index committed.
        models: queue id -> the model that has applied what is committed.
        gone: ids of queues that are deleted. emptied: of these, those whose messages have gone to their alternates.
        voters: stream -> who votes, by what is committed.
        members: index of the cluster's stream -> who were members then, sorted.
        births: stream -> who voted in it before its first change.
        on_commit: called with (stream, event, model, effective) for every committed queue event, after the model.
        on_wiring: called with every committed event of the cluster stream.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._chance = world.rng.random
        self.voters: dict[str, list[str]] = {events.CLUSTER: list(world.brokers)}
        self.births: dict[str, list[str]] = {events.CLUSTER: list(world.brokers)}
        self.members: dict[int, list[str]] = {}
        self.faulty = world.standby
        self.logs: dict[str, dict[int, events.Entry]] = {}
        self.commits: dict[str, int] = {}
        self.models: dict[str, ModelQueue] = {}
        self.wiring = ModelWiring()
        self.on_condition: list[Callable[[str, events.Condemn], None]] = []  # a queue is deleted on a condition
        self.on_vacant: list[Callable[[str], None]] = []  # a queue is deleted since nobody uses it any more
        self.gone: set[str] = set()
        self.emptied: set[str] = set()
        self.before_commit: list[Any] = []
        self.on_commit: list[Any] = []
        self.on_wiring: list[Callable[[events.AnyEvent], None]] = []
        self.asked: dict[tuple[str, int, int], dict[str, list[bytes]]] = {}  # (origin, inc, number) -> stream -> parts
        self.unanswered: dict[tuple[str, int], int] = {}  # requests not answered yet, and their bytes
        self._placed: dict[tuple[str, int, int, str], int] = {}  # (origin, inc, number, stream) -> parts committed
        self._last_number: dict[tuple[str, int], int] = {}
        self._last_placed: dict[tuple[str, int, str], int] = {}  # (origin, inc, stream) -> last number in its log
        self._seqs: dict[int, tuple[str, int]] = {}
        self._terms: dict[tuple[str, events.Ballot, int], events.Entry] = {}
        self._begun: set[tuple[str, events.Ballot]] = set()
        self._newest: dict[str, events.Ballot] = {}  # stream -> the highest ballot under which anything was sent
        self._leaders: dict[events.Ballot, str] = {}
        self._acked: dict[tuple[str, events.Ballot], dict[str, int]] = {}  # (stream, ballot) -> voter -> up to where
        # (stream, ballot promised) -> voter -> the end of the log it had when it promised, and that entry's ballot
        self._told: dict[tuple[str, events.Ballot], dict[str, tuple[int, events.Ballot]]] = {}
        # (voter, stream) -> up to where it has it on disk; where nothing says so, all it was given counts
        self.on_disk: Callable[[str, str], float] = lambda voter, stream: inf
        self._learned: dict[tuple[str, str, events.Ballot], dict[str, int]] = {}  # what a learner was told
        self._learns: dict[str, list[tuple[str, str, events.Ballot]]] = {}  # broker -> the same, of its replicas
        # The same -> by what it was looked at last: up to where its disk had it, what it may say, whether it is blank, who
        # voted, and up to where that makes the stream committed.
        self._learnt: dict[tuple[str, str, events.Ballot], tuple[float, int, Any, list[str], int]] = {}
        self._said: dict[tuple[str, str, events.Ballot], int] = {}  # what a process has been given and may acknowledge
        self._heard: dict[str, events.Ballot] = {}  # process -> what it was asked to promise
        self._promised: dict[str, events.Ballot] = {}  # process -> what it has said it follows
        self._blank: dict[tuple[str, str], tuple[str, int]] = {}  # (stream, voter) -> the blank process, its inc
        self._returned: set[tuple[str, events.Ballot, str, int]] = set()  # blank keepers whose vote counts again
        self._incs: dict[str, int] = {}  # process -> incarnation of its requests
        self.lost_to_a_ring = 0  # settlements of messages that a ring had dropped
        self._own: dict[str, list[int]] = {}  # stream -> where its log has, or had, an entry of the sequencers' own
        # (machine, stream) -> what it kept of it when it was compared last, and where both were in the stream.
        self._compared: dict[tuple[str, str], tuple[Any, int, int]] = {}
        self._digests: dict[tuple[str, int], int] = {}
        self._wirings: dict[int, int] = {}
        self._tables: dict[tuple[str, int], tuple[Any, Any]] = {}  # (stream, index) -> numbers and incs of its keepers
        world.watch(
            sent={Append: self._append, Request: self._request, Results: self._results, Ack: self._says_ack,
                  LogReport: self._promises, Heartbeat: self._beat, Deliver: self._owns},
            arrived={Ack: self._ack, LogReport: self._subscribed, Results: self._answered, Append: self._given,
                     Prepare: self._hears},
        )  # fmt: skip
        world.steps.append(self._stepped)
        world.deaths.append(self._died)

    def model_of(self, name: str) -> ModelQueue | None:
        """The model of the queue that has this name now (None: no such queue, or nothing committed in it yet)."""
        return self.models.get(self.wiring.ids.get(name, ""))

    def _died(self, name: str, machine: Any) -> None:
        """The requests of a dead process may or may not be carried out."""
        for key in [key for key in self.unanswered if key[0] == name]:
            del self.unanswered[key]
        stored = self.world.stores is not None and name in self.world.stores.disks
        if not stored:  # what is on a disk is not forgotten
            self._promised.pop(name, None)

    def replaced(self, broker: str) -> None:
        """A broker has another disk."""
        self._promised.pop(broker, None)

    # ---- who leads, who has promised what: I1, I2

    def _beat(self, source: str, target: str, frame: Heartbeat) -> None:
        if self._leaders.setdefault(frame.ballot, source) != source:
            raise Violation(f"I2: {source} and {self._leaders[frame.ballot]} lead under {frame.ballot}")

    def _promises(self, source: str, target: str, frame: LogReport) -> None:
        if frame.promised < self._promised.get(source, events.ZERO):
            raise Violation(f"I1: {source} promised {self._promised[source]} and now {frame.promised}")
        self._promised[source] = frame.promised
        if frame.blank:
            self._blank[frame.stream, frame.voter] = (source, frame.log_inc)

    def _says_ack(self, source: str, target: str, frame: Ack) -> None:
        if frame.ballot < self._promised.get(source, events.ZERO):
            raise Violation(f"I1: {source} promised {self._promised[source]} and acknowledges under {frame.ballot}")
        if "." in source:
            key = (source, frame.stream, frame.ballot)
            self._said[key] = max(frame.match, self._said.get(key, 0))
            hosted = self.world.machines[source].queues.get(frame.stream)
            if hosted is not None and hosted.updating:
                raise Violation(f"I19: {source} acknowledges {frame.stream} before its update is done")

    def _owns(self, source: str, target: str, frame: Deliver) -> None:
        hosted = self.world.machines[source].queues.get(frame.queue)
        if hosted is not None and (hosted.updating or (frame.acquisition and not hosted.serving)):
            raise Violation(f"I19: {source} delivers from {frame.queue} before it is up to date and a voter")

    # ---- requests: I7, I8

    def _request(self, source: str, target: str, frame: Request) -> None:
        last = self._last_number.get((frame.origin, frame.inc), 0)
        if frame.number > last + 1:
            raise Violation(f"I8: {frame.origin} skips from request {last} to {frame.number}")
        self._last_number[frame.origin, frame.inc] = max(last, frame.number)
        parts: dict[str, list[bytes]] = {}
        for stream, event in frame.parts:
            parts.setdefault(stream, []).append(event)
        self._incs[frame.origin] = frame.inc
        key = (frame.origin, frame.inc, frame.number)
        if key not in self.asked:
            self.asked[key] = parts
            self.unanswered[frame.origin, frame.number] = sum(len(event) for _, event in frame.parts)
        elif self.asked[key] != parts:
            raise Violation(f"S5: {frame.origin} uses number {frame.number} for two requests")

    def _results(self, source: str, target: str, frame: Results) -> None:
        inc = frame.inc
        for number in frame.numbers:
            asked = self.asked.get((target, inc, number))
            if asked is None:
                if self.faulty:
                    continue  # an answer to an incarnation that is over
                raise Violation(f"I6: {target} hears of its request {number}, which it did not make")
            for stream, parts in asked.items():
                if stream in self.gone:
                    continue
                log, index = self.logs.get(stream, {}), self.commits.get(stream, 0)
                placed = self._placed.get((target, inc, number, stream), 0)
                while placed < len(parts) and index + 1 in log:
                    index += 1
                    placed += (log[index].origin, log[index].inc, log[index].number) == (target, inc, number)
                if placed < len(parts):
                    raise Violation(f"I6: request {number} of {target} is answered and not all in {stream}")
                self._commit_to(stream, index, f"the answer to request {number} of {target}")

    def _answered(self, source: str, target: str, frame: Results) -> None:
        for number in frame.numbers if frame.inc == self._incs.get(target) else ():
            self.unanswered.pop((target, number), None)

    # ---- the logs: I3, I5, S4

    def _append(self, source: str, target: str, frame: Append) -> None:
        if frame.stream in self.gone:
            return  # who has deleted it already has forgotten it, and rightly has no say any more
        log = self.logs.setdefault(frame.stream, {})
        if (frame.stream, frame.ballot) not in self._begun:
            self._begun.add((frame.stream, frame.ballot))
            self._adopted(source, frame, log)
            self._newest[frame.stream] = max(frame.ballot, self._newest.get(frame.stream, events.ZERO))
        deposed = frame.ballot < self._newest[frame.stream]
        committed = self.commits.get(frame.stream, 0)
        for index, entry in enumerate(frame.entries, frame.previous + 1):
            if self._terms.setdefault((frame.stream, entry.ballot, index), entry) != entry:
                raise Violation(f"I3: {frame.stream} has two entries {index} under {entry.ballot}")
            known = log.get(index)
            if known == entry:
                continue
            if deposed and (index > committed or (known is not None and frame.ballot < known.ballot)):
                continue  # a deposed one still talks, and may have the longer log; nobody may listen
            if index <= committed:
                raise Violation(f"I5: {frame.stream} had {known} committed at {index}; {frame.ballot} says {entry}")
            if known is None and index != len(log) + 1:
                raise Violation(f"I5: {frame.stream} has {len(log)} entries and gets number {index}")
            if known is not None:
                if not self.faulty:
                    raise Violation(f"I3: {frame.stream} has two entries {index}: {known} and {entry}")
                for later in range(index, len(log) + 1):
                    del log[later]
            log[index] = entry
            if not entry.origin:
                insort(self._own.setdefault(frame.stream, []), index)
            if self._seqs.setdefault(entry.seq, (frame.stream, index)) != (frame.stream, index) and not self.faulty:
                raise Violation(f"I5: seq {entry.seq} is given twice")
        if frame.commit > committed:
            self._commit_to(frame.stream, frame.commit, "an Append", frame.ballot)

    def _adopted(self, source: str, frame: Append, log: dict[int, events.Entry]) -> None:
        """A term begins: of what is not committed, its sequencer's log is what counts from now on."""
        committed = self.commits.get(frame.stream, 0)
        if any(entry.ballot > frame.ballot for entry in log.values()):
            return
        adopted = self.world.machines[source].order.streams[frame.stream].log
        for index in [index for index in log if index > committed]:
            del log[index]
        for index in sorted(adopted):
            if index > committed and adopted[index].ballot < frame.ballot:
                log[index] = adopted[index]
                if not adopted[index].origin:
                    insort(self._own.setdefault(frame.stream, []), index)

    def _enter(self, stream: str, index: int, entry: events.Entry) -> None:
        """An entry is committed: its place in its origin's order."""
        if not entry.origin:
            return
        key = (entry.origin, entry.inc, entry.number, stream)
        placed = self._placed.get(key, 0)
        parts = self.asked.get(key[:3], {}).get(stream, [])
        if placed >= len(parts):
            raise Violation(f"I7: request {entry.number} of {entry.origin} is in {stream} more often than it asked")
        if parts[placed] != entry.event:
            raise Violation(f"I8: {stream} has the parts of request {entry.number} of {entry.origin} in another order")
        last = (entry.origin, entry.inc, stream)
        if entry.number < self._last_placed.get(last, 0):
            raise Violation(f"I8: {stream} has request {entry.number} of {entry.origin} behind a later one")
        self._placed[key] = placed + 1
        self._last_placed[last] = entry.number

    def _ack(self, source: str, target: str, frame: Ack) -> None:
        self._acks(source, frame.stream, frame.voter, frame.ballot, frame.match)
        if "." in target:
            self._learn(target, frame.stream, frame.ballot, frame.voter, frame.match)
        if frame.applied > self.commits.get(frame.stream, 0):
            # A learner may know of a commit before anybody has said so: by the acknowledgements it has been told.
            self._commit_to(frame.stream, frame.applied, f"{frame.voter} by applying it", frame.ballot)

    def _hears(self, source: str, target: str, frame: Prepare) -> None:
        """A process with a store promises at once, and says so when that is on disk (K1')."""
        self._heard[target] = max(frame.ballot, self._heard.get(target, events.ZERO))

    def _given(self, source: str, target: str, frame: Append) -> None:
        if "." not in target or frame.ballot < max(
            self._promised.get(target, events.ZERO), self._heard.get(target, events.ZERO)
        ):
            return
        match = frame.previous + len(frame.entries)
        key = (target, frame.stream, frame.ballot)
        if frame.distinguished_learner == target or frame.previous <= max(
            self._said.get(key, 0), self.commits.get(frame.stream, 0)
        ):
            self._said[key] = max(match, self._said.get(key, 0))
        if frame.distinguished_learner == target:
            self._learn(target, frame.stream, frame.ballot, target.partition(".")[0], match)

    def _learn(self, learner: str, stream: str, ballot: events.Ballot, voter: str, match: int) -> None:
        """A replica that others acknowledge to may take as committed what a majority holds, itself among it."""
        key, itself = (learner, stream, ballot), learner.partition(".")[0]
        told = self._learned.get(key)
        if told is None:
            told = self._learned[key] = {}
            self._learns.setdefault(itself, []).append(key)
        if match:
            told[voter] = max(told.get(voter, 0), match)
        said = self._said.get(key, 0)
        if itself in told and said > told[itself]:
            told[itself] = said  # from before it was told of the others' acknowledgements
        voters = self.voters.get(stream, [])
        flushed = self.on_disk(itself, stream)  # by which it counts itself, if it has a store
        if itself in told:
            self._acks(learner, stream, itself, ballot, int(min(told[itself], flushed)))
        held = sorted((min(told.get(v, 0), flushed) if v == itself else told.get(v, 0) for v in voters), reverse=True)
        index = int(held[len(voters) // 2]) if held and itself in told else 0
        self._learnt[key] = flushed, said, self._blank.get((stream, itself)), voters, index
        if not index or self._changes(stream, index):
            return  # it waits until it is told
        entry = self.logs.get(stream, {}).get(index)
        if entry is not None and entry.ballot == ballot:
            self._commit_to(stream, index, f"{learner} by what it was told")

    def flushed(self, broker: str) -> None:
        """More is on the disk of a broker: its replicas may know of commits that they have been told of before."""
        known = self._learns[broker] = [key for key in self._learns.get(broker, ()) if key[1] not in self.gone]
        on_disk: dict[str, float] = {}
        for key in [*known]:
            learner, stream, ballot = key
            if stream not in on_disk:
                on_disk[stream] = self.on_disk(broker, stream)
            # Where nothing else is known than when it was looked at last, and what came of that is committed, nothing
            # comes of it now. What it was told is looked at when it is told.
            flushed, said, blank, voters, index = self._learnt[key]
            if (
                flushed != on_disk[stream]
                or said != self._said.get(key, 0)
                or blank != self._blank.get((stream, broker))
                or voters is not self.voters.get(stream)
                or index > self.commits.get(stream, 0)
            ):
                self._learn(learner, stream, ballot, broker, 0)

    def _subscribed(self, source: str, target: str, frame: LogReport) -> None:
        if frame.ballot == frame.promised:
            self._acks(source, frame.stream, frame.voter, frame.ballot, frame.have)
        elif not frame.blank:
            self._told.setdefault((frame.stream, frame.promised), {})[frame.voter] = frame.have, frame.ballot

    def _acks(self, source: str, stream: str, voter: str, ballot: events.Ballot, match: int) -> None:
        """`voter` holds the log of this ballot up to `match`; a blank process counts once it has rejoined (K4, I15)."""
        held = self._acked.setdefault((stream, ballot), {})
        key = voter
        blank = self._blank.get((stream, voter))
        if blank is not None and blank[0] == source:
            key = f"{voter} blank {blank[1]}"
        held[key] = max(held.get(key, 0), match)

    def holders(self, stream: str, ballot: events.Ballot, index: int) -> set[str]:
        """The voters of a stream that have acknowledged, under that ballot, its log up to that index."""
        held = self._acked.get((stream, ballot), {})
        voters = {voter for voter, match in held.items() if match >= index and "blank" not in voter}
        for key, match in held.items():
            voter, _, inc = key.partition(" blank ")
            if inc and match >= index and self._rejoined(stream, ballot, voter, int(inc), match):
                voters.add(voter)
        return voters & set(self.voters.get(stream, ()))

    def _changes(self, stream: str, upto: int) -> list[int]:
        """Indexes of changes of the voters up to there that are not committed."""
        log, own = self.logs.get(stream, {}), self._own.get(stream, [])
        return [
            index
            for index in sorted(set(own[bisect_right(own, self.commits.get(stream, 0)) : bisect_right(own, upto)]))
            if index in log and not log[index].origin and _kind(log[index]) is events.Member
        ]

    def _rejoined(self, stream: str, ballot: events.Ballot, voter: str, inc: int, match: int) -> bool:
        log = self.logs.get(stream, {})
        held = self._acked.get((stream, ballot), {})
        voters = self.voters.get(stream, [])
        committed = self.commits.get(stream, 0)
        if (stream, ballot, voter, inc) in self._returned:
            return True
        own = self._own.get(stream, [])
        for index in reversed(own[: bisect_right(own, match)]):
            entry = log.get(index)
            if entry is None or entry.origin:
                continue
            event = events.decode_event(entry.event)
            if isinstance(event, events.Member) and (event.broker, event.inc, event.present) == (voter, inc, True):
                return index <= committed
            if isinstance(event, events.Rejoin) and (event.voter, event.inc) == (voter, inc):
                others = {name.partition(" ")[0] for name, m in held.items() if m >= index}
                # A voter whose log is the beginning of the adopted one holds the entry too, and will tell of it.
                told = self._told.get((stream, ballot), {}).items()
                others |= {name for name, (m, end) in told if m >= index and m in log and log[m].ballot == end}
                others = others & set(voters) - {voter}
                if index <= committed or len(others) >= len(voters) - len(voters) // 2:
                    self._returned.add((stream, ballot, voter, inc))  # by the voters there were then
                    return True  # otherwise an earlier one may be: a term that begins may ask for the same again
        return False

    def _commit_to(self, stream: str, commit: int, why: str, ballot: events.Ballot | None = None) -> None:
        known = self.commits.get(stream, 0)
        if commit <= known or stream in self.gone:
            return
        entry = self.logs.get(stream, {}).get(commit)
        if entry is None:
            raise Violation(f"I5: {why} says that {stream} is committed up to {commit}, which was never sent")
        for index in self._changes(stream, commit - 1):  # those before decide on a change, those after on what follows
            self._commit_to(stream, index, why, ballot)
        log, voters = self.logs[stream], self.voters.get(stream, [])
        # An adopted entry is committed with the first one of a newer term behind it, not by itself (S4).
        later = {log[commit].ballot: commit}
        for index in range(commit + 1, len(log) + 1):
            later.setdefault(log[index].ballot, index)
        holders = [self.holders(stream, term, index) for term, index in later.items()]
        if not any(len(held) > len(voters) // 2 for held in holders):
            raise Violation(
                f"S4: {why} says that {stream} is committed up to {commit}, which {max(holders, key=len)} of {voters} hold"
            )
        for index in range(self.commits.get(stream, 0) + 1, commit + 1):
            self.commits[stream] = index
            self._enter(stream, index, self.logs[stream][index])
            self._commit(stream, index, self.logs[stream][index])

    def _commit(self, stream: str, index: int, entry: events.Entry) -> None:
        event = events.decode_event(entry.event)
        if event is None:
            return
        if isinstance(event, events.Member):
            voters = self.voters[stream] = [v for v in self.voters.get(stream, []) if v != event.broker]
            voters += [event.broker] if event.present else []
        if stream == events.CLUSTER:
            if isinstance(event, events.DeclareQueue):
                self.voters.setdefault(f"{event.name}#{index}", list(self.voters[stream]))
                self.births.setdefault(f"{event.name}#{index}", list(self.voters[stream]))
            self.members[index] = sorted(self.voters[stream])
            if isinstance(event, events.DeleteQueue) and event.name in self.wiring.ids and self.wiring.deletes(event):
                id = self.wiring.ids[event.name]
                if not self.wiring.stays(event):
                    self.gone.add(id)
                for told in self.on_vacant if event.vacant else ():
                    told(id)
                if event.id and not event.vacant and not (id in self.models and self.models[id].destroyed):
                    raise Violation(f"{id} is deleted as if it had destroyed itself, and it has not")
                for found in self.on_condition if event.broker else ():
                    found(id, self.wiring.condemned[id])
            if isinstance(event, Dissolved) and event.queue in self.wiring.dissolving:
                self._all_known(event.queue)
                self.emptied.add(event.queue)
            if isinstance(event, events.Lost | Dissolved):
                self.gone.add(event.queue)
            self.wiring.apply(event, index)
            for told in self.on_wiring:
                told(event)
            return
        model = self.models.get(stream)
        if model is None:
            definition = self.wiring.born.get(stream, ({}, False, ""))
            model = self.models[stream] = ModelQueue(stream, bool(definition[2]))
            declared(model, definition[0])
        for seen in self.before_commit:
            seen(stream, event, model)
        if isinstance(event, events.Configure):
            if self.wiring.said.get(stream, {}).get(event.index) != event.arguments:
                raise Violation(f"{stream}: {event} is not what the policies say by that event of the cluster's stream")
            if event.since and sorted(event.brokers) != self.members.get(event.since):
                raise Violation(f"{stream}: {event} has not all who were members: {self.members.get(event.since)}")
        effective = model.apply(event)
        for seen in self.on_commit:
            seen(stream, event, model, effective)

    def _all_known(self, stream: str) -> None:
        """Commits that a learner knows first."""
        for name, machine in self.world.machines.items():
            if "." in name and stream in machine.queues:
                self._commit_to(stream, machine.queues[stream].applied, f"K3: {name} by applying it")

    # ---- states: I9, I14, I16, I18

    def _stepped(self, name: str) -> None:
        if self._chance() < COMPARE_SHARE:
            self.compare(name)

    def compare(self, name: str, again: bool = False) -> None:
        """One machine's state against the other replicas' and the model's. `again`: also what has applied nothing since
        it was compared."""
        machine = self.world.machines[name]
        if "." in name:
            for id, hosted in machine.queues.items():
                self._compare_queue(name, id, hosted, again)
        elif name in self.world.brokers:
            self._compare_broker(name, machine, again)

    def _is_new(self, name: str, stream: str, kept: Any, applied: int) -> bool:
        committed = self.commits.get(stream, 0)
        before = self._compared.get((name, stream))
        self._compared[name, stream] = kept, applied, committed
        return before is None or before[0] is not kept or before[1:] != (applied, committed)

    def _compare_queue(self, name: str, id: str, hosted: Any, again: bool) -> None:
        if hosted.updating or id in self.gone:
            return
        if hosted.applied > self.commits.get(id, 0):  # a learner knows first
            self._commit_to(id, hosted.applied, f"K3: {name} by applying it")
        self._compare_keeper(name, hosted.keeper)
        if not (self._is_new(name, id, hosted, hosted.applied) or again):
            return
        if hosted.catch_up.status is not Status.SERVING and hosted.applied < hosted.keeper.commit:
            return  # what an update has left out is gone only when all of it is applied
        committed = self.commits.get(id, 0)
        digest = hosted.state.digest()
        if self._digests.setdefault((id, hosted.applied), digest) != digest:
            raise Violation(f"I16: {name} and another replica of {id} differ at {hosted.applied}")
        model = self.models.get(id)
        if model is not None and hosted.applied == committed:
            same_state(name, hosted.state, model)

    def _compare_keeper(self, name: str, keeper: Any) -> None:
        """The numbers that a sequencer will adopt from this log are those that every other one would tell it (S5)."""
        if keeper.blank:
            return  # of who voted before it came it may only know how that ended
        told = (dict(keeper.numbers), dict(keeper.over), dict(keeper.incs), dict(keeper.lives), sorted(keeper.voters))
        known = self._tables.setdefault((keeper.stream, keeper.commit), told)
        if keeper.commit and known != told:
            raise Violation(
                f"I16: {name} has numbers, incarnations and voters of {keeper.stream} {told}, another {known}"
            )

    def _compare_broker(self, name: str, machine: Any, again: bool) -> None:
        self._compare_keeper(name, machine.keeper)
        if self._is_new(name, events.CLUSTER, machine.wiring, machine.keeper.commit) or again:
            self._compare_wiring(name, machine)
        for origin, number in self.unanswered:
            if origin == name and number not in machine.submitter.unanswered:
                raise Violation(f"B1: {name} has forgotten its request {number}, which has no answer")
        under_way = sum(len(event) for request in machine.submitter.unanswered.values() for _, event in request.parts)
        if not 0 <= machine.transfers.uncommitted_bytes <= under_way:
            raise Violation(
                f"I18: {name} counts {machine.transfers.uncommitted_bytes} uncommitted bytes, {under_way} are under way"
            )

    def _compare_wiring(self, name: str, machine: Any) -> None:
        digest = machine.wiring.digest()
        if self._wirings.setdefault(machine.keeper.commit, digest) != digest:
            raise Violation(f"I16: {name} and another broker have different wirings at {machine.keeper.commit}")
        if machine.keeper.commit == self.commits.get(events.CLUSTER, 0):
            exchanges, queues = machine.wiring.exchanges(), machine.wiring.queues()
            found = ({q.name: q.id for q in queues}, {q.name: (q.arguments, q.durable, q.alternate) for q in queues},
                     {e.name: e.type for e in exchanges}, {e.name: e.alternate for e in exchanges if e.alternate},
                     {(b.exchange, b.queue, b.key) for b in machine.wiring.bindings()},
                     {(b.exchange, b.queue, b.key) for b in machine.wiring.links()},
                     set(machine.wiring.dissolving), machine.wiring.redirects.of)  # fmt: skip
            wiring = self.wiring
            wanted = (wiring.ids, wiring.defined, wiring.exchanges, wiring.alternates, wiring.bindings,
                      set(wiring.links), set(wiring.dissolving), wiring.redirects)  # fmt: skip
            if found != wanted:
                raise Violation(f"I16: the wiring of {name} is {found}, the model's is {wanted}")

    def finish(self) -> None:
        """At rest: everything is answered, all replicas are alike and as the model says."""
        if left := [id for id, model in self.models.items() if model.destroyed and id not in self.gone]:
            raise Violation(f"I17: {left} have destroyed themselves, and are still there")
        if self.unanswered:
            raise Violation(f"I17: at rest these requests have no answer: {list(self.unanswered)[:5]}")
        for name in list(self.world.machines):
            self.compare(name, True)
        for id in self.models.keys() - self.gone:
            applied = [
                machine.queues[id].applied
                for name, machine in self.world.machines.items()
                if "." in name and id in machine.queues
            ]
            if applied != [self.commits[id]] * sum(broker in self.world.machines for broker in self.world.brokers):
                raise Violation(f"I17 {id}: at rest its replicas are at {applied}, committed is {self.commits[id]}")


def _kind(entry: events.Entry) -> type:
    return type(events.decode_event(entry.event))


def delivery_counts(state: Any) -> dict[int, int]:
    """Position -> how often a machine's queue says that it was delivered before."""
    said = state.deliveries
    counts = dict.fromkeys(each(said.marks.flat()), 1) | said.repeated | dict.fromkeys(each(said.uncounted.flat()), 0)
    return dict(sorted(counts.items()))


def same_state(name: str, state: Any, model: ModelQueue) -> None:
    """A machine's queue is the model's, and every position is in exactly one place (I9)."""
    where = f"{name} {model.id}"
    places: dict[int, object] = dict.fromkeys(each(state.available.flat()), "available")
    for (broker, inc, acquisition), held in state.acquired.items():
        positions, before = each(held.flat()), len(places)
        if twice := [position for position in positions if position in places]:
            raise Violation(f"I9 {where}: {twice[0]} is in two places")
        places |= dict.fromkeys(positions, ("held", broker, inc, acquisition))
        if len(places) != before + len(positions):
            raise Violation(f"I9 {where}: of {positions} some are in two places")
    if places.keys() & state.delayed.due.keys() or each(state.delayed.ranges.flat()) != sorted(state.delayed.due):
        raise Violation(f"I9 {where}: of {state.delayed.due} some are in two places, or {state.delayed.ranges}")
    places |= dict.fromkeys(state.delayed.due, "delayed")
    if any(due_ms != model.due.get(position) for position, due_ms in state.delayed.due.items()):
        raise Violation(f"{where}: {state.delayed.due} are delayed, the model says {model.due}")
    places |= dict.fromkeys(each(state.dead_lettering.flat()), "dead_lettering")
    wanted = dict(zip(model.live, map(model.place.__getitem__, model.live), strict=True))
    if places != wanted:
        every = sorted(places.keys() | wanted.keys())
        differ = {p: (places.get(p), model.place.get(p)) for p in every if places.get(p) != wanted.get(p)}
        raise Violation(f"I9 {where}: position -> (machine, model): {dict(list(differ.items())[:5])}")
    if state.blobs != model.live:
        raise Violation(f"I9 {where}: the messages kept are not those that are there")
    senders = list(map(sender_of, map(as_sent, model.live.values()) if model.relay else model.live.values()))
    origins = list(map(state.origins.of, model.live))
    if senders != origins:
        for position, said, origin in zip(model.live, senders, origins, strict=True):
            if said and origin != said:
                raise Violation(f"{where}: {position} was sent by {said}, not by {origin!r}")
    went = (state.accepted, state.discarded, state.dead_lettered, state.expired, state.moved)
    if went != (theirs := tuple(model.went.get(how, 0) for how in GONE)):
        raise Violation(f"I9 {where}: {went} went as {GONE}, the model says {theirs}")
    if state.enqueued != len(model.place) or state.bytes != sum(map(len, model.live.values())):
        raise Violation(f"I9 {where}: {state.enqueued} enqueued, the model says {len(model.place)}")
    held_back = state.refused, state.flow_stopped, state.flow_stopped_count
    if held_back != (theirs := (sum(map(len, model.refused.values())), model.stopped, model.stops)):
        raise Violation(f"{where}: (refused, stopped, how often) are {held_back}, the model says {theirs}")
    stands = {token: tuple(stands) for token, stands in state.batches.moves.items()}
    if stands != (theirs := model.stands):
        raise Violation(f"{where}: moves stand at {stands}, the model says {theirs}")
    same_counts(where, state, model)
    same_ids(where, state, model)
    same_names(where, state, model)
    same_expiry(where, state, model)
    counts = delivery_counts(state)
    if counts != {p: model.returned[p] for p in model.returned.keys() & model.live.keys()}:
        raise Violation(f"I9 {where}: delivery counts are {counts}, the model says {model.returned}")
    notes = {p: model.notes[p] for p in model.notes.keys() & model.live.keys()}
    if state.deliveries.annotations != notes:
        raise Violation(f"{where}: what is noted on messages is {state.deliveries.annotations}, the model says {notes}")
    if (state.owner, state.grant) != (model.owner, model.grant):
        raise Violation(
            f"I14 {where}: {state.owner!r} under {state.grant}, the model says {model.owner!r} under {model.grant}"
        )
