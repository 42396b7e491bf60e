"""The invariants of `sequencer.md` section 6 on order, commit and state, watched from outside.

Frames are tapped where they are sent and where they arrive; the committed log so found is replayed into the models of
`model.py`; the machines' states are compared with these. What clients see is checked in `deliveries.py`.
"""

from __future__ import annotations

from typing import Any

from mantamq.protocol import events
from mantamq.protocol.frames import Ack, Append, Request, Results, Subscribe

from .model import GONE, ModelQueue, ModelWiring, Violation, each
from .world import BROKERS, World

MAJORITY = len(BROKERS) // 2 + 1
COMPARE_SHARE = 0.1
"""Share of a machine's steps after which its whole state is compared."""


class Watcher:
    """Watches the order of a world; raises `Violation` where an invariant breaks.

    Attributes:
        logs: stream -> index -> entry, as the sequencer has sent it.
        commits: stream -> highest index committed.
        models: queue id -> the model that has applied what is committed.
        gone: ids of queues that are deleted.
        on_commit: called with (stream, event, model, effective) for every committed queue event, after the model.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.logs: dict[str, dict[int, events.Entry]] = {}
        self.commits: dict[str, int] = {}
        self.models: dict[str, ModelQueue] = {}
        self.wiring = ModelWiring()
        self.gone: set[str] = set()
        self.before_commit: list[Any] = []
        self.on_commit: list[Any] = []
        self.asked: dict[tuple[str, int], dict[str, list[bytes]]] = {}  # (origin, number) -> stream -> its parts
        self.unanswered: dict[tuple[str, int], int] = {}  # requests not answered yet, and their bytes
        self._placed: dict[tuple[str, int, str], list[int]] = {}  # (origin, number, stream) -> indexes in its log
        self._last_number: dict[str, int] = {}
        self._last_placed: dict[tuple[str, str], int] = {}  # (origin, stream) -> last number in its log
        self._seqs: set[int] = set()
        self._given: dict[tuple[str, str], int] = {}  # (stream, voter) -> end of what has arrived there
        self._acked: dict[tuple[str, str], int] = {}
        self._told: dict[
            tuple[str, str], dict[str, int]
        ] = {}  # (replica, stream) -> voter -> what it acknowledged there
        self._digests: dict[tuple[str, int], int] = {}
        self._wirings: dict[int, int] = {}
        self._sent_rules = {Append: self._append, Request: self._request, Results: self._results}
        self._arrival_rules = {Append: self._given_append, Ack: self._ack, Subscribe: self._subscribed,
                               Results: self._answered}  # fmt: skip
        world.taps.append(self._sent)
        world.arrivals.append(self._arrived)
        world.steps.append(self._stepped)

    def _sent(self, source: str, target: str, frame: Any) -> None:
        rule = self._sent_rules.get(type(frame))
        if rule is not None:
            rule(source, target, frame)

    def _arrived(self, source: str, target: str, frame: Any) -> None:
        rule = self._arrival_rules.get(type(frame))
        if rule is not None:
            rule(source, target, frame)

    def model_of(self, name: str) -> ModelQueue | None:
        """The model of the queue that has this name now (None: no such queue, or nothing committed in it yet)."""
        return self.models.get(self.wiring.ids.get(name, ""))

    # ---- requests: I7, I8

    def _request(self, source: str, target: str, frame: Request) -> None:
        last = self._last_number.get(frame.origin, 0)
        if frame.number > last + 1:
            raise Violation(f"I8: {frame.origin} skips from request {last} to {frame.number}")
        self._last_number[frame.origin] = max(last, frame.number)
        parts: dict[str, list[bytes]] = {}
        for stream, event in frame.parts:
            parts.setdefault(stream, []).append(event)
        key = (frame.origin, frame.number)
        if key not in self.asked:
            self.asked[key] = parts
            self.unanswered[key] = sum(len(event) for _, event in frame.parts)
        elif self.asked[key] != parts:
            raise Violation(f"S5: {frame.origin} uses number {frame.number} for two requests")

    def _results(self, source: str, target: str, frame: Results) -> None:
        for number in frame.numbers:
            if (target, number) not in self.asked:
                raise Violation(f"I6: {target} hears of its request {number}, which it did not make")
            for stream, parts in self.asked[target, number].items():
                placed = self._placed.get((target, number, stream), [])
                if stream in self.gone:
                    continue
                if len(placed) < len(parts):
                    raise Violation(f"I6: request {number} of {target} is answered and not all in {stream}")
                self._commit_to(stream, placed[-1], f"the answer to request {number} of {target}")

    def _answered(self, source: str, target: str, frame: Results) -> None:
        for number in frame.numbers:
            self.unanswered.pop((target, number), None)

    # ---- the logs: I3, I5, S4

    def _append(self, source: str, target: str, frame: Append) -> None:
        log = self.logs.setdefault(frame.stream, {})
        for index, entry in enumerate(frame.entries, frame.previous + 1):
            known = log.get(index)
            if known is None:
                if index != len(log) + 1:
                    raise Violation(f"I5: {frame.stream} has {len(log)} entries and gets number {index}")
                log[index] = entry
                self._enter(frame.stream, index, entry)
            elif known != entry:
                raise Violation(f"I3: {frame.stream} has two entries {index}: {known} and {entry}")
        if frame.commit > len(log):
            raise Violation(f"I5: {frame.stream} has {len(log)} entries and commits {frame.commit}")
        if frame.commit > self.commits.get(frame.stream, 0):
            self._commit_to(frame.stream, frame.commit, "an Append")

    def _enter(self, stream: str, index: int, entry: events.Entry) -> None:
        if entry.seq in self._seqs:
            raise Violation(f"I5: seq {entry.seq} is given twice")
        self._seqs.add(entry.seq)
        if not entry.origin:
            return
        key = (entry.origin, entry.number, stream)
        placed = self._placed.setdefault(key, [])
        parts = self.asked.get(key[:2], {}).get(stream, [])
        if len(placed) >= len(parts):
            raise Violation(f"I7: request {entry.number} of {entry.origin} is in {stream} more often than it asked")
        if parts[len(placed)] != entry.event:
            raise Violation(f"I8: {stream} has the parts of request {entry.number} of {entry.origin} in another order")
        if entry.number < self._last_placed.get((entry.origin, stream), 0):
            raise Violation(f"I8: {stream} has request {entry.number} of {entry.origin} behind a later one")
        placed.append(index)
        self._last_placed[entry.origin, stream] = entry.number

    def _given_append(self, source: str, target: str, frame: Append) -> None:
        key = (frame.stream, target.partition(".")[0])
        have = self._given.get(key, 0)
        if frame.previous <= have:
            self._given[key] = max(have, frame.previous + len(frame.entries))
        self._learn(target, frame.stream)

    def _ack(self, source: str, target: str, frame: Ack) -> None:
        key = (frame.stream, frame.voter)
        if frame.match > self._given.get(key, 0):
            raise Violation(f"K2: {frame.voter} acknowledges {frame.match} of {frame.stream}, which it has not got")
        if frame.applied > self.commits.get(frame.stream, 0):
            raise Violation(f"K3: {frame.voter} has applied {frame.applied} of {frame.stream}, which is not committed")
        self._acked[key] = max(self._acked.get(key, 0), frame.match)
        if "." in target:
            told = self._told.setdefault((target, frame.stream), {})
            told[frame.voter] = max(told.get(frame.voter, 0), frame.match)
            self._learn(target, frame.stream)

    def _learn(self, learner: str, stream: str) -> None:
        """A replica that others acknowledge to may take as committed what a majority holds, itself among it."""
        told = self._told.get((learner, stream))
        if told is not None:
            broker = learner.partition(".")[0]
            held = sorted((told | {broker: self._given.get((stream, broker), 0)}).values(), reverse=True)
            if len(held) >= MAJORITY:
                self._commit_on(stream, held[MAJORITY - 1])

    def _subscribed(self, source: str, target: str, frame: Subscribe) -> None:
        key = (frame.stream, frame.voter)
        if frame.have != self._given.get(key, 0):
            raise Violation(
                f"K2: {frame.voter} says it has {frame.have} of {frame.stream}: it got {self._given.get(key, 0)}"
            )
        self._acked[key] = max(self._acked.get(key, 0), frame.have)

    def _commit_to(self, stream: str, commit: int, why: str) -> None:
        known = self.commits.get(stream, 0)
        if commit <= known:
            return
        voters = sum(self._acked.get((stream, broker), 0) >= commit for broker in BROKERS)
        if voters < MAJORITY:
            raise Violation(f"S4: {why} says that {stream} is committed up to {commit}, which {voters} voters hold")
        self._commit_on(stream, commit)

    def _commit_on(self, stream: str, commit: int) -> None:
        for index in range(self.commits.get(stream, 0) + 1, commit + 1):
            self.commits[stream] = index
            self._commit(stream, index, self.logs[stream][index])

    def _commit(self, stream: str, index: int, entry: events.Entry) -> None:
        event = events.decode_event(entry.event)
        if event is None:
            return
        if stream == events.CLUSTER:
            if isinstance(event, events.DeleteQueue) and event.name in self.wiring.ids:
                self.gone.add(self.wiring.ids[event.name])
            self.wiring.apply(event, index)
            return
        model = self.models.get(stream)
        if model is None:
            definition = self.wiring.defined.get(stream.rpartition("#")[0], ({}, False, ""))
            model = self.models[stream] = ModelQueue(stream, bool(definition[2]))
        for seen in self.before_commit:
            seen(stream, event, model)
        effective = model.apply(event)
        for seen in self.on_commit:
            seen(stream, event, model, effective)

    # ---- states: I9, I14, I16, I18

    def _stepped(self, name: str) -> None:
        if self.world.rng.random() < COMPARE_SHARE:
            self.compare(name)

    def compare(self, name: str) -> None:
        """One machine's state against the other replicas' and the model's."""
        machine = self.world.machines[name]
        if "." in name:
            for id, hosted in machine.queues.items():
                self._compare_queue(name, id, hosted)
        elif name in BROKERS:
            self._compare_broker(name, machine)

    def _compare_queue(self, name: str, id: str, hosted: Any) -> None:
        committed = self.commits.get(id, 0)
        if hosted.applied > committed:
            raise Violation(f"K3 {name}: {id} is applied up to {hosted.applied}, committed up to {committed}")
        digest = hosted.state.digest()
        if self._digests.setdefault((id, hosted.applied), digest) != digest:
            raise Violation(f"I16: {name} and another replica of {id} differ at {hosted.applied}")
        model = self.models.get(id)
        if model is not None and hosted.applied == committed:
            same_state(name, hosted.state, model)

    def _compare_broker(self, name: str, machine: Any) -> None:
        digest = machine.wiring.digest()
        if self._wirings.setdefault(machine.keeper.commit, digest) != digest:
            raise Violation(f"I16: {name} and another broker have different wirings at {machine.keeper.commit}")
        if machine.keeper.commit == self.commits.get(events.CLUSTER, 0):
            found = ({q.name: q.id for q in machine.wiring.queues()}, {e.name: e.type for e in machine.wiring.exchanges()},
                     {(b.exchange, b.queue, b.key) for b in machine.wiring.bindings()})  # fmt: skip
            wanted = (self.wiring.ids, self.wiring.exchanges, self.wiring.bindings)
            if found != wanted:
                raise Violation(f"I16: the wiring of {name} is {found}, the model's is {wanted}")
        under_way = sum(size for (origin, _), size in self.unanswered.items() if origin == name)
        if not 0 <= machine.uncommitted_bytes <= under_way:
            raise Violation(
                f"I18: {name} counts {machine.uncommitted_bytes} uncommitted bytes, {under_way} are under way"
            )

    def finish(self) -> None:
        """At rest: everything is answered, all replicas are alike and as the model says."""
        if self.unanswered:
            raise Violation(f"I17: at rest these requests have no answer: {list(self.unanswered)[:5]}")
        for name in self.world.machines:
            self.compare(name)
        for id in self.models.keys() - self.gone:
            applied = [
                machine.queues[id].applied
                for name, machine in self.world.machines.items()
                if "." in name and id in machine.queues
            ]
            if applied != [self.commits[id]] * len(BROKERS):
                raise Violation(f"I17 {id}: at rest its replicas are at {applied}, committed is {self.commits[id]}")


def same_state(name: str, state: Any, model: ModelQueue) -> None:
    """A machine's queue is the model's, and every position is in exactly one place (I9)."""
    where = f"{name} {model.id}"
    places: dict[int, object] = dict.fromkeys(each(state.available.flat()), "available")
    for (broker, inc, acquisition), held in state.acquired.items():
        for position in each(held.flat()):
            if position in places:
                raise Violation(f"I9 {where}: {position} is in two places")
            places[position] = ("held", broker, inc, acquisition)
    places |= dict.fromkeys(each(state.dying.flat()), "dying")
    wanted = {position: model.place[position] for position in model.live}
    if places != wanted:
        every = sorted(places.keys() | wanted.keys())
        differ = {p: (places.get(p), model.place.get(p)) for p in every if places.get(p) != wanted.get(p)}
        raise Violation(f"I9 {where}: position -> (machine, model): {dict(list(differ.items())[:5])}")
    if state.blobs != model.live:
        raise Violation(f"I9 {where}: the messages kept are not those that are there")
    counts = model.counts()
    for ours, theirs in zip(("accepted", "discarded", "dead_lettered", "expired"), GONE, strict=True):
        if getattr(state, ours) != counts.get(theirs, 0):
            raise Violation(f"I9 {where}: {getattr(state, ours)} {ours}, the model says {counts.get(theirs, 0)}")
    if state.enqueued != len(model.place) or state.bytes != sum(map(len, model.live.values())):
        raise Violation(f"I9 {where}: {state.enqueued} enqueued, the model says {len(model.place)}")
    if state.deliveries != {p: n for p, n in model.returned.items() if p in model.live}:
        raise Violation(f"I9 {where}: delivery counts are {state.deliveries}, the model says {model.returned}")
    if (state.owner, state.grant) != (model.owner, model.grant):
        raise Violation(
            f"I14 {where}: {state.owner!r} under {state.grant}, the model says {model.owner!r} under {model.grant}"
        )
