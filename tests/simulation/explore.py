"""Every order of deliver, drop and crash in a small world, on the real machines.

Depth first, with a set of the worlds already visited. In every world these are checked, by code of its own: promises
never decrease and nothing below them is accepted (I1), one sequencer per ballot (I2), logs that agree at a place agree
before it (I3), what was committed is in every log that a newer sequencer adopts, and in the best log of every quorum
it could adopt from (I4), what is committed never changes (I5), an answer means committed (I6), a request is in the log
once (I7), and a keeper that has lost its log has no vote before an entry gave it back (I15).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, MutableSequence
from itertools import combinations
from typing import Any, NamedTuple

from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.wire.events import CLUSTER, Ballot, Entry
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import Ack, Append, Request, Results

from .model import Violation
from .small import NODES, Node, Space, sequencer_name

CHUNK = 20_000
ELSEWHERE = 0.03
"""How often not the deepest world is next, but any: the deepest ones are all alike for a long time."""
GONE = -1
"""In place of a frame: the link ends here, its sequencer is dead."""
Action = tuple[Any, ...]


class Bounds(NamedTuple):
    """How much may happen in one exploration.

    Attributes:
        nodes: keepers. sequencers: the first leads, the others stand by.
        requests: that are asked. cuts: links that break and are dialled again, losing what is on them.
        deaths: nodes that die and come back without their log. ends: sequencers that die.
        append_bytes: what an `Append` carries at the most.
        prefix: actions that come first, in this order.
    """

    nodes: int
    sequencers: int
    requests: int
    cuts: int
    deaths: int
    ends: int
    append_bytes: int = DEFAULT.append_bytes
    prefix: tuple[Action, ...] = ()


class State(NamedTuple):
    """A world: numbers of machine states, frames under way, what is left to happen, and what has been.

    Attributes:
        links: per (sequencer, node): frames to the node; frames to the sequencer.
        alive: which sequencers live. waited: which have waited for the last silent node.
        suspected: which standbys have been asked to take over.
        asked: requests so far. answered: how many of them. following: the sequencer they go to.
        committed: (entry, the lowest ballot under which it was seen committed), by index from 1.
        disks: what the nodes have on disk, in worlds with stores (`small_stores.py`).
    """

    nodes: tuple[int, ...]
    sequencers: tuple[int, ...]
    links: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    alive: tuple[bool, ...]
    waited: tuple[bool, ...]
    suspected: tuple[bool, ...]
    asked: int
    answered: tuple[int, ...]
    following: int
    cuts: int
    deaths: int
    ends: int
    committed: tuple[tuple[Entry, Ballot], ...]
    disks: tuple[Any, ...] = ()


class Explorer:
    """One exploration within its bounds.

    Attributes:
        visited: number of different worlds seen.
        exhausted: there are no others.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.space = Space()
        self.names = NODES[: bounds.nodes]
        self.leaders = tuple(sequencer_name(i) for i in range(bounds.sequencers))
        self.majority = bounds.nodes // 2 + 1
        self.recovery = bounds.nodes - self.majority + 1
        self.exhausted = False
        self._seen: set[int] = set()
        self._rng = random.Random(1)
        self._stack: MutableSequence[tuple[State, tuple[Any, ...]]] = []

    @property
    def visited(self) -> int:
        return len(self._seen)

    def run(self, states: int) -> Iterator[int]:
        """Visit up to `states` worlds; yields how many, now and then. Raises `Violation` with the way there."""
        self._push(*self._begin())
        told = 0
        while self._stack and len(self._seen) < states:
            state, path = self._next()
            alone = self._alone(state)
            actions = list(self.actions(state)) if alone is None else [alone]
            self._rng.shuffle(actions)
            for action in actions:
                way = (path, action)
                try:
                    self._push(self.act(state, action), way)
                except Violation as violation:
                    raise Violation(f"{violation}; the way there:\n{self.tell(way)}") from None
                except Exception as error:
                    raise Violation(f"{type(error).__name__}: {error}; the way there:\n{self.tell(way)}") from error
            if len(self._seen) - told >= CHUNK:
                told = len(self._seen)
                yield told
        self.exhausted = not self._stack
        yield len(self._seen)

    def _next(self) -> tuple[State, tuple[Any, ...]]:
        """The deepest world, or now and then any other: the deepest ones alone are all alike for a long time."""
        stack = self._stack
        if self._rng.random() < ELSEWHERE:
            other = self._rng.randrange(len(stack))
            stack[other], stack[-1] = stack[-1], stack[other]
        return stack.pop()

    def _push(self, state: State, path: tuple[Any, ...]) -> None:
        key = hash(state)
        if key not in self._seen:
            self._seen.add(key)
            self._stack.append((state, path))

    def tell(self, path: tuple[Any, ...]) -> str:
        lines: list[str] = []
        while path:
            path, action = path
            lines.append("  " + " ".join(map(str, action)))
        return "\n".join(reversed(lines))

    # ---- the beginning: the first sequencer leads, everybody follows it and its term has begun

    def _begin(self) -> tuple[State, tuple[Any, ...]]:
        space, bounds = self.space, self.bounds
        members = list(self.names)
        pairs = bounds.sequencers * bounds.nodes
        limits = Limits(append_bytes=bounds.append_bytes)
        state = State(
            tuple(space.put(self._newborn(name, 1, False)) for name in members),
            tuple(
                space.put(SequencerMachine(7 + i, members, leading=i == 0, limits=limits))
                for i in range(bounds.sequencers)
            ),
            (((), ()),) * pairs, (True,) * bounds.sequencers, (False,) * bounds.sequencers,
            (False,) * bounds.sequencers, 0, (), 0, bounds.cuts, bounds.deaths, bounds.ends, (),
        )  # fmt: skip
        state = self._settled(self._linked_up(state))
        path: tuple[Any, ...] = ()
        for action in bounds.prefix:
            path = (path, action)
            state = self.act(state, action)
        return state, path

    def _newborn(self, name: str, inc: int, blank: bool) -> Node:
        return Node(name, inc, blank, list(self.names))

    def _linked_up(self, state: State) -> State:
        for s in range(self.bounds.sequencers):
            for n in range(self.bounds.nodes):
                state = self._dial(state, s, n)
        return state

    def _settled(self, state: State) -> State:
        while True:
            action = next((action for action in self.actions(state) if action[0] in ("to", "from")), None)
            if action is None:
                return state
            state = self.act(state, action)

    # ---- what may happen

    def actions(self, state: State) -> Iterator[Action]:
        count = len(self.names)
        for s in range(len(self.leaders)):
            for n in range(count):
                to, back = state.links[s * count + n]
                if to:
                    yield ("to", self.leaders[s], self.names[n])
                if back and state.alive[s]:
                    yield ("from", self.leaders[s], self.names[n])
                if (to or back) and state.cuts:
                    yield ("cut", self.leaders[s], self.names[n])
            if not state.alive[s]:
                continue
            view = self.space.views[state.sequencers[s]]
            if view.role == "preparing" and not state.waited[s]:
                yield ("wait", self.leaders[s])
            if view.role == "standby" and not state.suspected[s]:
                yield ("suspect", self.leaders[s])
            if (
                view.role == "leading"
                and not view.stopped
                and state.asked < self.bounds.requests
                and s >= state.following
            ):
                yield ("ask", self.leaders[s])
            if state.ends and view.role != "standby":
                yield ("end", self.leaders[s])
        for n in range(count):
            if state.deaths or self.space.views[state.nodes[n]].out:
                yield ("death", self.names[n])

    def _alone(self, state: State) -> Action | None:
        """An action whose order among the others makes no difference, so that it alone need be looked at: the end of a
        dead sequencer's link; anything said to one that has stopped; and, where no link can break and no node die, a
        frame without entries for a node to which nobody else has or will have anything to say. (With entries it does
        make a difference: to what a quorum could adopt.)"""
        count = len(self.names)
        speaks = [self._speaks(state, s) for s in range(len(self.leaders))]
        calm = not state.cuts and not state.deaths
        for n in range(count):
            links = [state.links[s * count + n] for s in range(len(self.leaders))]
            for s, (to, back) in enumerate(links):
                if to and to[0] == GONE:
                    return ("to", self.leaders[s], self.names[n])
                if back and state.alive[s] and self.space.views[state.sequencers[s]].stopped:
                    return ("from", self.leaders[s], self.names[n])
            sources = [s for s, (to, _) in enumerate(links) if to or speaks[s]]
            if not calm or len(sources) != 1 or self.space.views[state.nodes[n]].out:
                continue
            to, _ = links[sources[0]]
            if to and not getattr(self.space.frames[to[0]], "entries", ()):
                return ("to", self.leaders[sources[0]], self.names[n])
        return None

    def _speaks(self, state: State, s: int) -> bool:
        """Whether a sequencer may still say something."""
        view = self.space.views[state.sequencers[s]]
        return state.alive[s] and not view.stopped and not (view.role == "standby" and state.suspected[s])

    def act(self, state: State, action: Action) -> State:
        """The world after `action`, checked."""
        kind, *who = action
        count = len(self.names)
        s = self.leaders.index(who[0]) if who[0] in self.leaders else -1
        n = self.names.index(who[-1]) if who[-1] in self.names else -1
        if kind == "to":
            to, back = state.links[s * count + n]
            state = self._linked(state, s, n, to[1:], back)
            return self._node(state, n, ("got", self.leaders[s], to[0]) if to[0] != GONE else ("down", self.leaders[s]))
        if kind == "from":
            to, back = state.links[s * count + n]
            state = self._linked(state, s, n, to, back[1:])
            return self._sequencer(state, s, ("got", self.names[n], back[0]))
        if kind == "cut":
            return self._dial(state._replace(cuts=state.cuts - 1), s, n)
        if kind == "wait":
            state = state._replace(waited=replaced(state.waited, s, True))
            return self._sequencer(state, s, ("grace",))
        if kind == "suspect":
            highest = max(self.space.views[node].promised for node in state.nodes)
            state = state._replace(suspected=replaced(state.suspected, s, True))
            for name in self.names:
                state = self._sequencer(state, s, ("suspect", name, highest))
            return state
        if kind == "ask":
            return self._ask(state, s)
        if kind == "end":
            state = state._replace(alive=replaced(state.alive, s, False), ends=state.ends - 1)
            for n in range(count):
                to, _ = state.links[s * count + n]
                state = self._linked(state, s, n, (*to, GONE), ())  # what it has sent may still arrive
            return state
        return self._death(state, n)

    def _ask(self, state: State, s: int) -> State:
        """The next request; whoever asks another sequencer than before repeats first what has no answer (B1)."""
        first = state.asked + 1
        if s != state.following:
            first = min([i for i in range(1, first) if i not in state.answered], default=first)
        state = state._replace(asked=state.asked + 1, following=s)
        for number in range(first, state.asked + 1):
            if number not in state.answered:
                request = self.space.frame(Request("o", 1, number, [(CLUSTER, b"%d" % number)] * 2))
                state = self._sequencer(state, s, ("got", "o", request))
        return state

    def _death(self, state: State, n: int) -> State:
        """A node dies and comes back at once, with nothing it had."""
        view = self.space.views[state.nodes[n]]
        state = state._replace(deaths=state.deaths - (not view.out))
        node = self.space.put(self._newborn(self.names[n], view.inc + 1, True))
        state = state._replace(nodes=replaced(state.nodes, n, node))
        for s in range(len(self.leaders)):
            state = self._dial(state, s, n)
        return state

    def _dial(self, state: State, s: int, n: int) -> State:
        """A new link between two machines; what was on the old one is lost."""
        state = self._linked(state, s, n, (), ())
        state = self._node(state, n, ("down", self.leaders[s]))
        if not state.alive[s]:
            return state
        state = self._sequencer(state, s, ("down", self.names[n]))
        state = self._linked(state, s, n, (), ())
        state = self._node(state, n, ("up", self.leaders[s]))
        return self._sequencer(state, s, ("up", self.names[n]))

    def _linked(self, state: State, s: int, n: int, to: tuple[int, ...], back: tuple[int, ...]) -> State:
        return state._replace(links=replaced(state.links, s * len(self.names) + n, (to, back)))

    # ---- machines at work

    def _node(self, state: State, n: int, input: tuple[Any, ...]) -> State:
        before = state.nodes[n]
        if self.space.views[before].out:
            return state
        after, said = self.space.step(before, input)
        if input[0] == "got":
            self._check_promise(before, after, self.space.frames[input[2]], said)
        state = state._replace(nodes=replaced(state.nodes, n, after))
        for peer, frame in said:
            if peer not in self.leaders:
                state = self._to_store(state, n, frame)
                continue
            s = self.leaders.index(peer)
            if state.alive[s]:
                to, back = state.links[s * len(self.names) + n]
                state = self._linked(state, s, n, to, (*back, frame))
        return self._checked(state, before, after) if after != before else state

    def _to_store(self, state: State, n: int, frame: int) -> State:
        raise Violation(f"{self.names[n]} has no store and writes {self.space.frames[frame]}")

    def _sequencer(self, state: State, s: int, input: tuple[Any, ...]) -> State:
        before = state.sequencers[s]
        after, said = self.space.step(before, input)
        state = state._replace(sequencers=replaced(state.sequencers, s, after))
        if after != before:
            if self.space.views[after].ready and not self.space.views[before].ready:
                self._check_adopted(state, after)
            state = self._checked(state, before, after)
        for peer, frame in said:
            if peer == "o":
                state = self._answered(state, self.space.frames[frame])
            elif peer in self.names:
                n = self.names.index(peer)
                to, back = state.links[s * len(self.names) + n]
                state = self._linked(state, s, n, (*to, frame), back)
        return state

    def _answered(self, state: State, frame: Frame) -> State:
        assert isinstance(frame, Results)
        for number in frame.numbers:
            if sum(entry.number == number for entry, _ in state.committed) != 2:
                raise Violation(f"I6: request {number} is answered and not committed")
        return state._replace(answered=tuple(sorted({*state.answered, *frame.numbers})))

    # ---- checks

    def _check_promise(self, before: int, after: int, frame: Frame, said: tuple[tuple[str, int], ...]) -> None:
        old, new = self.space.views[before], self.space.views[after]
        if new.promised < old.promised:
            raise Violation(f"I1: a node promised {old.promised} and then {new.promised}")
        if isinstance(frame, Append) and frame.ballot < old.promised and new.log != old.log:
            raise Violation(f"I1: a node that promised {old.promised} takes entries of {frame.ballot}")
        for _, number in said:
            answer = self.space.frames[number]
            if isinstance(answer, Ack) and answer.ballot < old.promised:
                raise Violation(f"I1: a node that promised {old.promised} acknowledges under {answer.ballot}")

    def _check_adopted(self, state: State, number: int) -> None:
        view = self.space.views[number]
        for index, (entry, ballot) in enumerate(state.committed, 1):
            if ballot < view.ballot and index > view.base and view.log.get(index) != entry:
                raise Violation(f"I4: {view.ballot} has adopted a log without {entry}, committed at {index}")

    def _checked(self, state: State, before: int, changed: int) -> State:
        views = self.space.views
        view = views[changed]
        state = self._committed(state, view, views[before].log)
        others = [views[number] for number in (*state.nodes, *state.sequencers) if number != changed]
        for other in others:
            _same_prefix(view, other)
        leading = [views[s] for s, alive in zip(state.sequencers, state.alive, strict=True) if views[s].ready]
        if len({leader.ballot for leader in leading}) != len(leading):
            raise Violation("I2: two sequencers lead under one ballot")
        for leader in leading:
            for voter, (inc, given) in leader.votes.items():
                if not given:
                    raise Violation(f"I15: incarnation {inc} of {voter} votes; no entry has given it its vote")
        self._check_quorums(state)
        return state

    def _committed(self, state: State, view: Any, log: dict[int, Entry]) -> State:
        """Entries that a machine holds for committed are those that have been committed (I5); new ones join them."""
        committed = state.committed
        for index in range(view.base + 1, min(view.commit, len(committed)) + 1):
            if view.log[index] != committed[index - 1][0]:
                raise Violation(f"I5: {committed[index - 1][0]} was committed at {index}; now it is {view.log[index]}")
        if view.commit <= len(committed):
            return state
        log = log | view.log  # what all hold is committed and forgotten in one step
        ballot = view.ballot if hasattr(view, "ballot") else view.promised
        for index in range(len(committed) + 1, view.commit + 1):
            entry = log[index]
            again = sum(other.origin == entry.origin and other.number == entry.number for other, _ in committed)
            if entry.origin and again > 1:
                raise Violation(f"I7: request {entry.number} is done twice")
            committed = (*committed, (entry, ballot))
        return state._replace(committed=committed)

    def _check_quorums(self, state: State) -> None:
        """Any recovery quorum of the logs that count holds all that is committed."""
        if not state.committed:
            return
        voters = [self.space.views[number] for number in state.nodes]
        voters = [view for view in voters if not view.blank and not view.out]
        for quorum in combinations(voters, self.recovery):
            best = max(quorum, key=lambda view: view.best)
            for index, (entry, _) in enumerate(state.committed, 1):
                if index > best.base and best.log.get(index) != entry:
                    raise Violation(f"I4: a quorum could adopt a log without {entry}, committed at {index}")


def replaced(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _same_prefix(one: Any, other: Any) -> None:
    """I3: where two logs have an entry of the same ballot at the same place, they are alike up to there."""
    first = max(one.base, other.base) + 1
    differs = False
    for index in range(first, min(one.end, other.end) + 1):
        a, b = one.log[index], other.log[index]
        if a == b:
            if differs:
                raise Violation(f"I3: two logs have {a} at {index} and differ before it")
        elif a.ballot == b.ballot:
            raise Violation(f"I3: {a} and {b} are both at {index} under {a.ballot}")
        else:
            differs = True


_TWO_TERMS: tuple[Action, ...] = (
    ("ask", "sequencer"), ("to", "sequencer", "b1"), ("end", "sequencer"),
    ("cut", "sequencer", "b2"), ("cut", "sequencer", "b3"), ("to", "sequencer", "b1"),
    ("suspect", "sequencer2"), ("to", "sequencer2", "b2"), ("to", "sequencer2", "b3"),
    ("from", "sequencer2", "b2"), ("from", "sequencer2", "b2"), ("from", "sequencer2", "b3"),
    ("from", "sequencer2", "b3"), ("wait", "sequencer2"), ("to", "sequencer2", "b2"), ("from", "sequencer2", "b2"),
    ("to", "sequencer2", "b3"), ("to", "sequencer2", "b3"),
)  # fmt: skip
FIGURE_8: tuple[Action, ...] = (
    *_TWO_TERMS, ("end", "sequencer2"), ("cut", "sequencer2", "b1"), ("cut", "sequencer2", "b2"),
    ("suspect", "sequencer3"), ("to", "sequencer3", "b1"), ("to", "sequencer3", "b2"),
    *[("from", "sequencer3", "b1")] * 2, *[("from", "sequencer3", "b2")] * 2, ("wait", "sequencer3"),
    ("to", "sequencer3", "b1"), ("from", "sequencer3", "b1"),
)  # fmt: skip
"""One node had entries of the first term, another has the second term's start; the third term has adopted the former."""
LONG_AND_OLD: tuple[Action, ...] = (
    *_TWO_TERMS, ("to", "sequencer2", "b2"), ("to", "sequencer2", "b2"), *[("from", "sequencer2", "b2")] * 4,
    *[("from", "sequencer2", "b3")] * 4, ("end", "sequencer2"), ("cut", "sequencer2", "b1"),
    ("cut", "sequencer2", "b2"), ("cut", "sequencer2", "b3"),
)  # fmt: skip
"""The second term's start is committed, and a node that has not seen it has a longer log."""

STORIES = (
    Bounds(nodes=2, sequencers=2, requests=1, cuts=0, deaths=0, ends=1),
    Bounds(nodes=3, sequencers=2, requests=1, cuts=0, deaths=0, ends=0),
    Bounds(nodes=3, sequencers=2, requests=2, cuts=1, deaths=1, ends=1),
    Bounds(nodes=2, sequencers=2, requests=4, cuts=2, deaths=0, ends=1),
    Bounds(nodes=3, sequencers=2, requests=4, cuts=0, deaths=0, ends=1, append_bytes=1),
    Bounds(nodes=3, sequencers=3, requests=1, cuts=4, deaths=0, ends=2, append_bytes=1, prefix=FIGURE_8),
    Bounds(nodes=3, sequencers=3, requests=1, cuts=5, deaths=0, ends=2, prefix=LONG_AND_OLD),
    Bounds(nodes=3, sequencers=3, requests=1, cuts=0, deaths=1, ends=2),
)
