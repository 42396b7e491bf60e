"""The invariants of `sequencer.md` section 6, watched from outside: frames that pass, and states compared at the end."""

from __future__ import annotations

from typing import Any

import msgspec
from mantamq.protocol import events
from mantamq.protocol.effects import SEQUENCER
from mantamq.protocol.frames import (
    Ack,
    Append,
    Completed,
    Deliver,
    Delivery,
    Disposed,
    Flow,
    Request,
)

from .model import ModelQueue, Violation, each, each_run
from .world import BROKERS, World

MAJORITY = len(BROKERS) // 2 + 1
UNCOMMITTED_BOUND = 64 * 1024 * 1024
_raw_event = msgspec.msgpack.Decoder(list[Any])


class Watcher:
    """Watches a world; raises `Violation` where an invariant breaks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.logs: dict[str, dict[int, Any]] = {}
        self.commits: dict[str, int] = {}
        self.models: dict[str, ModelQueue] = {}
        self.wiring: list[events.AnyEvent] = []
        self.requests: dict[tuple[str, int], dict[str, int]] = {}  # (origin, number) -> parts per stream
        self.credit: dict[tuple[str, int], int] = {}
        self.digests: dict[tuple[str, int], int] = {}
        self.delivered = 0
        self._last_number: dict[str, int] = {}
        self._last_in_log: dict[tuple[str, str], int] = {}
        self._entries: dict[tuple[str, int, str], int] = {}
        self._acked: dict[tuple[str, str], int] = {}
        self._said: dict[str, int] = {}
        self._out: dict[tuple[str, int], tuple[str, int, bool]] = {}  # (queue, position) -> broker, acquisition, logged
        self._modes: dict[tuple[str, int], tuple[str, bool]] = {}
        self.expect_routes: dict[str, list[str]] = {}  # sender ("client/handle") -> queue names
        world.taps.append(self._sent)
        world.arrivals.append(self._arrived)
        world.steps.append(self._stepped)

    # ---- frames

    def _arrived(self, source: str, target: str, frame: Any) -> None:
        if type(frame) is Ack and target == SEQUENCER:
            key = (frame.stream, frame.voter)
            self._acked[key] = max(self._acked.get(key, 0), frame.match)
            self._held_by_majority(frame.stream)
        elif type(frame) is Delivery:
            count = len(each(frame.ranges))
            left = self.credit.get((target, frame.handle), 0) - count
            if left < 0:
                raise Violation(f"I18: {target} got {-left} messages beyond its credit on handle {frame.handle}")
            self.credit[target, frame.handle] = left

    def _sent(self, source: str, target: str, frame: Any) -> None:
        kind = type(frame)
        if kind is Append and source == SEQUENCER:
            self._append(frame)
        elif kind is Request:
            self._request(frame)
        elif kind is Deliver:
            self._deliver(source, frame)
        elif kind is Completed:
            self._completed(source, target, frame)
        elif kind is Disposed:
            self._disposed(source, target, frame)
        elif kind is Flow:
            self.credit[source, frame.handle] = self.credit.get((source, frame.handle), 0) + frame.messages

    def _request(self, frame: Request) -> None:
        last = self._last_number.get(frame.origin, 0)
        if frame.number > last + 1:
            raise Violation(f"I8: {frame.origin} skips from request {last} to {frame.number}")
        self._last_number[frame.origin] = max(last, frame.number)
        parts: dict[str, int] = {}
        for stream, _ in frame.parts:
            parts[stream] = parts.get(stream, 0) + 1
        if self.requests.setdefault((frame.origin, frame.number), parts) != parts:
            raise Violation(f"S5: {frame.origin} uses number {frame.number} for two requests")

    def _append(self, frame: Append) -> None:
        log = self.logs.setdefault(frame.stream, {})
        for index, entry in enumerate(frame.entries, frame.previous + 1):
            known = log.get(index)
            if known is None:
                if index != len(log) + 1:
                    raise Violation(f"I5: {frame.stream} has {len(log)} entries and gets number {index}")
                log[index] = entry
                self._enter(frame.stream, entry)
            elif known != entry:
                raise Violation(f"I3: {frame.stream} has two entries {index}: {known} and {entry}")
        said = self._said.get(frame.stream, 0)
        if frame.commit < said:
            raise Violation(f"I5: the commit index of {frame.stream} goes back from {said} to {frame.commit}")
        self._said[frame.stream] = frame.commit
        if frame.commit > self.commits.get(frame.stream, 0):
            raise Violation(f"S4: {frame.stream} commits {frame.commit}, which no majority holds")

    def _held_by_majority(self, stream: str) -> None:
        """What a majority holds is committed, whoever knows."""
        matches = sorted((self._acked.get((stream, broker), 0) for broker in BROKERS), reverse=True)
        commit = self.commits.get(stream, 0)
        for index in range(commit + 1, matches[MAJORITY - 1] + 1):
            self.commits[stream] = index
            self._commit(stream, index, self.logs[stream][index])

    def _enter(self, stream: str, entry: Any) -> None:
        if not entry.origin:
            return
        key = (entry.origin, entry.number, stream)
        self._entries[key] = self._entries.get(key, 0) + 1
        if self._entries[key] > self.requests.get((entry.origin, entry.number), {}).get(stream, 0):
            raise Violation(f"I7: request {entry.number} of {entry.origin} is in {stream} more often than it asked")
        last = self._last_in_log.get((entry.origin, stream), 0)
        if entry.number < last:
            raise Violation(f"I8: {stream} has request {entry.number} of {entry.origin} behind {last}")
        self._last_in_log[entry.origin, stream] = entry.number

    def _commit(self, stream: str, index: int, entry: Any) -> None:
        event = events.decode_event(entry.event)
        if event is None:
            return
        if stream == events.CLUSTER:
            self.wiring.append(event)
            if isinstance(event, events.DeclareQueue):
                self.alternates = getattr(self, "alternates", {})
                self.alternates.setdefault(event.name, bool(event.alternate))
            return
        model = self.models.get(stream)
        if model is None:
            name = stream.rpartition("#")[0]
            model = self.models[stream] = ModelQueue(stream, getattr(self, "alternates", {}).get(name, False))
        if isinstance(event, events.Own) and event.by and event.by == model.owner:
            for (queue, position), (broker, _, logged) in self._out.items():
                if queue == stream and broker == event.by and not logged:
                    raise Violation(f"B3 {stream}: {broker} hands over before its acquire of {position} is ordered")
        model.apply(event)
        if isinstance(event, events.Acquire):
            for acquisition, position in each_run(event.runs):
                out = self._out.get((stream, position))
                if out is None or out[:2] != (event.broker, acquisition):
                    raise Violation(f"I10 {stream}: {position} is acquired by {event.broker} but was not delivered so")
                if event.accepted or model.place[position] != ("held", event.broker, event.inc, acquisition):
                    del self._out[stream, position]
                else:
                    self._out[stream, position] = (event.broker, acquisition, True)
        elif isinstance(event, events.Accept | events.Release | events.Reject):
            for acquisition, position in each_run(event.runs):
                if self._out.get((stream, position), ("", 0))[:2] == (event.broker, acquisition):
                    del self._out[stream, position]

    def _deliver(self, source: str, frame: Deliver) -> None:
        self.delivered += 1
        model = self.models.get(frame.queue)
        broker = source.partition(".")[0]
        positions = each(frame.ranges)
        if len(positions) != len(frame.blobs):
            raise Violation(f"{frame.queue}: {len(positions)} positions and {len(frame.blobs)} messages")
        for position, blob in zip(positions, frame.blobs, strict=True):
            if model is None or position not in model.place:
                raise Violation(f"K3 {frame.queue}: {position} is delivered before it is committed")
            if model.blobs[position] != blob:
                raise Violation(f"{frame.queue}: {position} is delivered with another message's body")
            if not frame.acquisition:
                continue
            if model.owner != broker:
                raise Violation(f"Q1 {frame.queue}: {broker} delivers {position} while {model.owner!r} is the owner")
            if (frame.queue, position) in self._out:
                raise Violation(
                    f"I10 {frame.queue}: {position} goes to {source}, out at {self._out[frame.queue, position]}"
                )
            if model.place[position] in ("accepted", "dead", "dying"):
                raise Violation(f"I11 {frame.queue}: {position} is delivered, and is {model.place[position]}")
            self._out[frame.queue, position] = (broker, frame.acquisition, False)

    def _completed(self, source: str, target: str, frame: Completed) -> None:
        sender = f"{target}/{frame.handle}"
        for name in self.expect_routes.get(sender, ()):
            model = next((m for m in self.models.values() if m.id.startswith(name + "#")), None)
            seen = model.seen.get(sender, set()) if model is not None else set()
            missing = [number for number in each(frame.ranges) if number not in seen]
            if missing:
                raise Violation(
                    f"I6: {sender} hears that {missing[:5]} are complete, but {name} has not committed them"
                )

    def _disposed(self, source: str, target: str, frame: Disposed) -> None:
        client = self.world.clients.get(target)
        if client is None:
            return
        sent = client.disposals.get((frame.handle, frame.number))
        if sent is None:
            return
        queue, kind, runs = sent
        lost = set(each_run(frame.lost))
        model = next(m for m in self.models.values() if m.id.startswith(queue + "#"))
        for acquisition, position in each_run(runs):
            if (acquisition, position) in lost:
                continue
            if (source, acquisition, position, kind) not in model.settled:
                raise Violation(
                    f"I6 {queue}: {target} hears that {kind} of {position} is done, but it is not committed"
                )

    # ---- states

    def _stepped(self, name: str) -> None:
        if self.world.rng.random() < 0.02:
            self.compare(name)

    def compare(self, name: str) -> None:
        """Equal digest at equal positions, on every replica (I16); bounded books (I18)."""
        machine = self.world.machines[name]
        if "." in name:
            for id, hosted in machine.queues.items():
                digest = hosted.state.digest()
                known = self.digests.setdefault((id, hosted.applied), digest)
                if known != digest:
                    raise Violation(f"I16: {name} and another replica of {id} differ at {hosted.applied}")
                model = self.models.get(id)
                if model is not None and hosted.applied == self.commits[id]:
                    self._same(name, hosted.state, model)
        elif name in BROKERS and machine.uncommitted_bytes > UNCOMMITTED_BOUND:
            raise Violation(f"I18: {name} has {machine.uncommitted_bytes} bytes uncommitted")

    def _same(self, name: str, state: Any, model: ModelQueue) -> None:
        """The machine's state is the model's (I9: every position is in exactly one place)."""
        places: dict[int, object] = dict.fromkeys(each(state.available.flat()), "available")
        for (broker, inc, acquisition), held in state.acquired.items():
            for position in each(held.flat()):
                if position in places:
                    raise Violation(f"I9 {name} {state.id}: {position} is in two places")
                places[position] = ("held", broker, inc, acquisition)
        places |= dict.fromkeys(each(state.dying.flat()), "dying")
        wanted = {
            p: place for p, place in model.place.items() if place in ("available", "dying") or type(place) is tuple
        }
        if places != wanted:
            differ = {
                p: (places.get(p), wanted.get(p))
                for p in places.keys() | wanted.keys()
                if places.get(p) != wanted.get(p)
            }
            raise Violation(f"I9 {name} {state.id}: machine and model differ: {dict(list(differ.items())[:5])}")
        counts = model.counts()
        for ours, theirs in (
            ("accepted", "accepted"),
            ("discarded", "discarded"),
            ("expired", "expired"),
            ("dead_lettered", "dead"),
        ):
            if getattr(state, ours) != counts.get(theirs, 0):
                raise Violation(
                    f"I9 {name} {state.id}: {getattr(state, ours)} {ours}, the model says {counts.get(theirs, 0)}"
                )
        if state.enqueued != len(model.place) or state.bytes != sum(len(model.blobs[p]) for p in wanted):
            raise Violation(f"I9 {name} {state.id}: {state.enqueued} enqueued, the model says {len(model.place)}")
        if (state.owner, state.grant) != (model.owner, model.grant):
            raise Violation(f"I14 {name} {state.id}: owner {state.owner!r}, the model says {model.owner!r}")

    def finish(self) -> None:
        """At rest: all replicas are alike and as the model says; rejected messages are where they belong (I13)."""
        for name in self.world.machines:
            self.compare(name)
        for id in self.models:
            applied = {
                hosted.applied
                for name, machine in self.world.machines.items()
                if "." in name
                for queue, hosted in machine.queues.items()
                if queue == id
            }
            if applied != {self.commits[id]}:
                raise Violation(f"I17 {id}: at rest its replicas are at {applied}, committed is {self.commits[id]}")
        dead = sum(model.counts().get("dead", 0) for model in self.models.values())
        buried = sum(
            len(numbers) for model in self.models.values() for client, numbers in model.seen.items() if "@" in client
        )
        targets = sum(len(routes) for key, routes in self.expect_routes.items() if key == "@alternate")
        if targets and buried != dead * targets:
            raise Violation(
                f"I13: {dead} messages were rejected for good, {buried} copies are in the alternate's queues"
            )
