"""Flow control inside the cluster, watched from outside: I20, and what of I18 the sequencer must keep."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

from mantamq.protocol.machine import is_sequencer
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import Completed, Detached
from mantamq.protocol.wire.log_frames import Append, Heartbeat, Request
from mantamq.protocol.wire.store_frames import Written

from .checkers import Watcher
from .model import Violation
from .world import World

SLACK_BYTES = 12_000
SLACK_ENTRIES = 70
"""At most this comes at each broker, from senders that have capacity left, from one that comes from another broker and
sends again what was not completed there, and of what consumers settle, until who is behind is given up, and of what dies
meanwhile, with all that its letters say; besides what was under way when flow control was to begin."""
RAISED_MS = 100
UNDER_WAY_MS = 50
"""Transfers that were under way come in this time after that: a window of each sender, all at once where another takes over."""
SLACK_BEATS = 12
ENDING = (events.DeleteExchange, events.DeleteQueue, events.Lost, events.Unbind)
"""Events of the cluster stream that end senders: what is complete is told first."""


NOTED = bytes([events.Modify.__struct_config__.tag])


def _size(event: bytes) -> int:
    """What consumers note on messages that they give back is theirs to say, flow control or not."""
    return 0 if event[1:2] == NOTED else len(event)


def _by_itself(part: tuple[str, bytes]) -> bool:
    """Nobody sends it: it comes from another queue."""
    event = events.decode_event(part[1])
    return isinstance(event, events.Enqueue) and "@" in event.client


class Flows:
    """Watches completions and logs.

    Args:
        missing: how many brokers do not vote everywhere now.

    Attributes:
        raised: how often flow control has gone on.
    """

    def __init__(self, world: World, watch: Watcher, missing: Callable[[], int]) -> None:
        self.world = world
        self.watch = watch
        self.missing = missing
        self.crowded: Callable[[str], bool] = lambda broker: False  # its memory is too much, by what it knows
        self.raised = 0
        self._ballot = events.ZERO
        self._number = 0
        self._early = 0  # beats that were sent before their time, since an answer was waited for
        self._beat_us = 0  # when the last of the others was sent
        self._since: dict[str, int] = {}  # for whom it is on -> the leader's beat when that was first seen
        self._seen = 0  # where in `_behind` it was at the last beat
        # Sequencer -> its backlog, and for whom flow control is on by that.
        self._raised: dict[str, tuple[Any, frozenset[str]]] = {}
        self._much: dict[str, int] = {}  # sequencer -> since when it keeps much, in ms
        self._indexes = [0]  # of the cluster stream, where it changed; and for whom it is on from there
        self._behind: list[frozenset[str]] = [frozenset()]
        self._read = 0
        self._known: dict[int, frozenset[str]] = {}  # what `on` has answered
        # (sequencer, stream) -> what it kept of it: its commit, `held`, entries, first index and `_reached` then; bytes
        # and entries, and of those behind `_reached`.
        self._kept: dict[tuple[str, str], tuple[tuple[int, ...], tuple[int, int, int, int]]] = {}
        # Sequencer that keeps so much that flow control is to begin -> requests without an answer when that was first so.
        self._under_way: dict[str, set[tuple[str, int, int]]] = {}
        # (sequencer, stream) -> the ballot, and up to where under it all held a stored log that were waited for.
        self._reached: dict[tuple[str, str], tuple[events.Ballot, int]] = {}
        # Broker -> the last that may have brought it on in the cluster stream, and where it was in that stream then.
        self._before: dict[str, tuple[Append | Written, int]] = {}
        self._piled_ms = -RAISED_MS  # when stores stood still last, so many that a stream waited for them
        self._ended: set[tuple[str, str]] = set()  # (broker, client): it must hear next that a sender of it has ended
        # (origin, inc, number) -> messages that go on by themselves, from a deleted queue to its alternate, say, were sent
        # while flow control was off there, or had been on for as long as they wait: a batch may be as large as its queue.
        self._freely: dict[tuple[str, int, int], bool] = {}
        self._stopped_ms: dict[str, int] = {}  # broker -> since when it has flow control on
        world.watch(sent={Request: self._goes_on})
        world.watch(
            sent={Heartbeat: self._beats, Completed: self._completes},
            arrived={Append: self._appended, Written: self._written},
        )
        world.steps.append(self._stepped)

    def _advance(self) -> None:
        """Read what has been committed in the cluster stream since."""
        log = self.watch.logs.get(events.CLUSTER, {})
        while self._read < self.watch.commits.get(events.CLUSTER, 0):
            self._read += 1
            event = events.decode_event(log[self._read].event)
            behind = set(self._behind[-1])
            if isinstance(event, events.FlowControl):
                (behind.add if event.on else behind.discard)(event.member)
            elif isinstance(event, events.Evict):
                behind.discard(event.broker)
            elif isinstance(event, events.Start):
                behind.clear()
            if behind != self._behind[-1]:
                self.raised += not self._behind[-1]
                self._indexes.append(self._read)
                self._behind.append(frozenset(behind))

    def on(self, index: int) -> frozenset[str]:
        """For whom flow control is on once the cluster stream is applied up to `index`."""
        behind = self._known.get(index)
        if behind is None:
            self._advance()
            behind = self._behind[bisect_right(self._indexes, index) - 1]
            if index <= self._read:  # what is committed stays so
                self._known[index] = behind
        return behind

    def _appended(self, source: str, target: str, frame: Append) -> None:
        if target in self.world.brokers and frame.stream == events.CLUSTER:
            self._before[target] = frame, self.world.machines[target].keeper.commit

    def _written(self, source: str, target: str, frame: Written) -> None:
        if target in self.world.brokers and target in self.world.machines:
            self._before[target] = frame, self.world.machines[target].keeper.commit

    def _beats(self, source: str, target: str, frame: Heartbeat) -> None:
        if frame.ballot >= self._ballot:
            self._beaten(source, frame)

    def _completes(self, source: str, target: str, frame: Completed) -> None:
        if source not in self.world.machines:
            return
        index = self.world.machines[source].keeper.commit
        if not self.on(index):
            return
        if not self._between(source, index):
            raise Violation(
                f"I20: {source} completes a transfer of {target}; it has applied {index} of the cluster stream, "
                f"and flow control is on for {sorted(self.on(index))}"
            )
        if not self._ended:
            self.world.taps.append(self._follows)
        self._ended.add((source, target))

    def _follows(self, source: str, target: str, frame: Any) -> None:
        """The next frame of a broker to a client that it has told of a completion, with flow control on."""
        if (source, target) not in self._ended or type(frame) is Completed:
            return
        self._ended.discard((source, target))
        if not self._ended:
            self.world.taps = [tap for tap in self.world.taps if tap != self._follows]
        if type(frame) is not Detached or not frame.code:
            raise Violation(f"I20: {source} completes a transfer of {target} though flow control is on")

    def _between(self, broker: str, index: int) -> bool:
        """Whether one `Append`, or the end of one flush, has brought all up to `index`, and among it, in front of the flow
        control, what ends a sender: that is told what is complete when that event is applied, and there flow control is
        off."""
        appended, before = self._before.get(broker, (None, 0))
        if appended is None or self.world.given.get(broker) is not appended:
            return False
        log = self.watch.logs.get(events.CLUSTER, {})
        return any(
            not self.on(at) and at in log and isinstance(events.decode_event(log[at].event), ENDING)
            for at in range(before + 1, index + 1)
        )

    def _stepped(self, name: str) -> None:
        if "." in name:
            return
        machine = self.world.machines[name]
        if name in self.world.brokers:
            said, index = machine.wiring.flow.members, machine.keeper.commit
            if machine.wiring.flow.stopped:
                self._stopped_ms.setdefault(name, self.world.now_us // 1000)
            else:
                self._stopped_ms.pop(name, None)
            if (said or self.on(index)) and said.keys() != self.on(index):
                raise Violation(
                    f"I16: {name} has flow control on for {set(said)} at {index}, it is for {self.on(index)}"
                )
        elif is_sequencer(name):
            self._keeps(name, machine)

    def _keeps(self, name: str, machine: Any) -> None:
        """The entries that a sequencer keeps for a member that is behind are bounded (I18, S8). Of faults that last, there
        is one at a time: so there is one who is behind. What it has kept for a voter with a disk that was away is not of
        those, also when that is back and has yet to be sent it all: until then flow control has not counted it."""
        if self.world.stores is not None:
            self._reaches(name, machine.order)
        if machine.election.role != "leading" or machine.election.deposed is not None:
            return
        self._lifts(name, machine)
        kept = entries = for_nobody_away = those_entries = 0
        for id, stream in machine.order.streams.items():
            if stream.log and stream.ready:
                held = self._held(name, id, stream)
                kept += held[0]
                entries += held[1]
                for_nobody_away += held[2]
                those_entries += held[3]
        self._notes_under_way(name, kept, entries)
        if any(machine.outbox.now_ms - since_ms < UNDER_WAY_MS for since_ms in machine.backlog.on.values()):
            return
        if self._waits_for_disks(machine.order.streams.values()):
            self._piled_ms = machine.outbox.now_ms
        if machine.outbox.now_ms - self._piled_ms < RAISED_MS:
            return  # what gathers while a majority's disks stand still is committed at once
        self._raised_in_time(name, machine, kept, entries)
        limits, brokers = self.world.limits, len(machine.order.members)
        most_bytes = limits.flow_give_up * limits.backlog_bytes + brokers * SLACK_BYTES
        most_entries = limits.flow_give_up * limits.backlog_entries + brokers * SLACK_ENTRIES
        if for_nobody_away > most_bytes or those_entries > most_entries:
            streams = {id: stream for id, stream in machine.order.streams.items() if stream.log and stream.ready}
            self._bounded(name, streams, most_bytes, most_entries)

    def _lifts(self, name: str, machine: Any) -> None:
        """Flow control goes off for who has caught up, is given up or has gone: else it would be on for ever so long, with
        breaks, and nobody be given up (I17)."""
        backlog, limits = machine.backlog, self.world.limits
        then, before = self._raised.get(name, (None, frozenset()))
        if backlog is then and backlog.on.keys() == before:
            return
        self._raised[name] = backlog, frozenset(backlog.on)
        for member in before.difference(backlog.on, machine.evictions.absent) if backlog is then else ():
            lacks = [
                (stream.commit - match, stream.size[stream.commit] - stream.size[match])
                for stream in machine.order.streams.values()
                if stream.ready and member not in stream.gone
                if (match := self._match(machine, stream, member)) < stream.commit
            ]
            entries, size = sum(one for one, _ in lacks), sum(one for _, one in lacks)
            share = max(entries / limits.backlog_entries, size / limits.backlog_bytes)
            if share > limits.flow_resume:
                raise Violation(
                    f"I17: {name} lifts flow control for {member}, which lacks {entries} entries, {size} bytes"
                )

    def _match(self, machine: Any, stream: Any, member: str) -> int:
        """From where on entries are kept for a member."""
        keeper = stream.keepers.get(member)
        if keeper is not None:
            return max(keeper.match, keeper.kept_from, stream.held)
        waited_for = member in stream.voters and (stream.name, member) not in machine.backlog.passed
        return stream.held if waited_for else stream.commit

    def _notes_under_way(self, name: str, kept: int, entries: int) -> None:
        """Note what is under way when so much is kept that flow control is to begin: it is committed all the same. Where
        another sequencer has taken over it is all that has waited for it, at one broker if all clients are there."""
        limits = self.world.limits
        if kept <= limits.flow_stop * limits.backlog_bytes and entries <= limits.flow_stop * limits.backlog_entries:
            self._under_way.pop(name, None)
        elif name not in self._under_way:
            submitters = [one.submitter for one in self.world.machines.values() if hasattr(one, "submitter")]
            self._under_way[name] = {(one.origin, one.inc, number) for one in submitters for number in one.unanswered}

    def _goes_on(self, source: str, target: str, frame: Request) -> None:
        machine = self.world.machines.get(source)
        if source not in self.world.brokers or machine is None or not any(map(_by_itself, frame.parts)):
            return
        # That it has gone off in this very step is noted only at the end of it.
        since_ms = self._stopped_ms.get(source) if machine.wiring.flow.stopped else None
        freely = since_ms is None or self.world.now_us // 1000 - since_ms >= self.world.timing.letters_wait_ms
        self._freely.setdefault((frame.origin, frame.inc, frame.number), freely)

    def _bounded(self, name: str, streams: dict[str, Any], most_bytes: float, most_entries: float) -> None:
        """Much is kept: count it without what was under way when flow control was to begin."""
        under_way = self._under_way.get(name, set())
        sizes: list[int] = []
        for id, stream in streams.items():
            first = max(stream.held, self._upto(name, id)) + 1
            entries = (stream.log[index] for index in range(first, stream.commit + 1))
            sizes += (
                _size(e.event)
                for e in entries
                if (origin := (e.origin, e.inc, e.number)) not in under_way and not self._freely.get(origin)
            )
        if sum(sizes) > most_bytes or len(sizes) > most_entries:
            raise Violation(
                f"I18: {name} keeps {sum(sizes)} bytes, {len(sizes)} entries of what is committed, besides what was under "
                f"way when flow control was to begin; it may {most_bytes} and {most_entries}"
            )

    def _reaches(self, name: str, order: Any) -> None:
        for id, stream in order.streams.items():
            if stream.stored:
                ballot, upto = self._reached.get((name, id), (events.ZERO, 0))
                if ballot != order.ballot or stream.held > upto:
                    self._reached[name, id] = order.ballot, stream.held

    def _upto(self, name: str, id: str) -> int:
        """Up to where all held a stored log that were waited for."""
        return self._reached[name, id][1] if (name, id) in self._reached else 0

    def _held(self, name: str, id: str, stream: Any) -> tuple[int, int, int, int]:
        """Bytes and entries of what is committed in the log of a stream, and of that what was kept for nobody who was
        away; counted anew only when the log is another."""
        key, log = (name, id), stream.log
        reached = self._reached[key][1] if key in self._reached else 0
        now = stream.commit, stream.held, len(log), next(iter(log)), reached
        then, counted = self._kept.get(key, ((), (0, 0, 0, 0)))
        if now != then:
            held = [(i, _size(e.event)) for i, e in log.items() if stream.held < i <= stream.commit]
            behind = [size for index, size in held if index > reached]
            counted = sum(size for _, size in held), len(held), sum(behind), len(behind)
            self._kept[key] = now, counted
        return counted

    def _raised_in_time(self, name: str, machine: Any, kept: int, entries: int) -> None:
        """Where things break: more is kept than each of those may be behind by that are members or join, and for long;
        so somebody is, and it must be on."""
        limits = self.world.limits

        def is_much(brokers: set[str]) -> bool:
            return kept > len(brokers) * limits.backlog_bytes or entries > len(brokers) * limits.backlog_entries

        much = is_much(set(machine.order.members))  # others that keep something make it less
        if much:
            keepers = (voter for stream in machine.order.streams.values() for voter in stream.keepers)
            much = is_much({*machine.order.members, *keepers})
        if not self.world.standby or not much or machine.backlog.on:
            self._much.pop(name, None)
        elif machine.outbox.now_ms - self._much.setdefault(name, machine.outbox.now_ms) > RAISED_MS:
            raise Violation(f"I20: {name} has kept {kept} bytes, {entries} entries for long without flow control")

    def _beaten(self, source: str, frame: Heartbeat) -> None:
        """A member that keeps flow control on for long is given up by a sequencer that leads and has a majority. Beats tell
        how long that is, as none is sent by one that stands still; those that are sent early do not. One that had caught
        up between two beats, and is behind again, has its whole window once more: the log says so, no beat does."""
        if frame.ballot != self._ballot or frame.sure < frame.number - 2:  # another leads, or it is cut off
            self._ballot, self._since = frame.ballot, {}
        on = self.on(self.watch.commits.get(events.CLUSTER, 0))
        if frame.number <= self._number and on == self._since.keys():
            return  # the same beat to another broker
        if frame.number > self._number:
            early = self.world.now_us - self._beat_us < self.world.timing.heartbeat_ms * 1000
            self._early += early
            self._beat_us = self._beat_us if early else self.world.now_us
        self._number = frame.number
        beat = frame.number - self._early
        leader = self.world.machines.get(source)
        waits = leader is not None and self._waits_for_disks(leader.order.streams.values())
        since = {} if waits else self._since
        throughout = frozenset.intersection(*self._behind[self._seen :])
        self._seen = len(self._behind) - 1
        self._since = {m: since.get(m, beat) if m in throughout and not self.crowded(m) else beat for m in on}
        timing = self.world.timing
        patience = timing.backlog_patience_ms // timing.heartbeat_ms + SLACK_BEATS
        late = [member for member, number in self._since.items() if beat - number > patience]
        if late and not self.missing() and self._spares():
            raise Violation(f"I17: flow control is on for {late} since beat {self._since[late[0]]} of {beat}")

    def _waits_for_disks(self, streams: Iterable[Any]) -> bool:
        """Whether so many stores stand still that a stream cannot go on, and nobody be given up: beats are answered
        meanwhile."""
        still = self.world.stores.still() if self.world.stores is not None else None
        return bool(still) and any(sum(v not in still for v in s.voters) <= len(s.voters) // 2 for s in streams)

    def _spares(self) -> bool:
        """Whether the others could do without one: of two that are left after somebody has gone, nobody is given up."""
        return len(set(self.world.brokers).difference(self.world.leaving)) > 2

    def lifted(self) -> bool:
        """Whether flow control is off everywhere (I17)."""
        commit = self.watch.commits.get(events.CLUSTER, 0)
        brokers = [self.world.machines[broker] for broker in self.world.brokers if broker in self.world.machines]
        return not self.on(commit) and not any(broker.wiring.flow.stopped for broker in brokers)

    def finish(self) -> None:
        """At rest every broker counts as often as it was raised."""
        self._advance()
        for broker in self.world.brokers:
            machine = self.world.machines.get(broker)
            if machine is not None and machine.wiring.flow.count != self.raised:
                raise Violation(
                    f"I16: {broker} says that flow control was on {machine.wiring.flow.count} times; it was {self.raised}"
                )
