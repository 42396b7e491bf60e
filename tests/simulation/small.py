"""Small worlds for `explore.py`: two or three keepers of one stream, a few sequencers, and every link's frames in order.

A machine's state is pickled and numbered, and what it does with an input is computed once: a step is a pure function.
So a world is a tuple of small numbers, and a million of them can be visited.
"""

from __future__ import annotations

import copyreg
import io
import marshal
import pickle
import sys
from collections import deque
from collections.abc import Iterable
from enum import Enum
from types import CellType, FunctionType, MethodType
from typing import Any

from mantamq.protocol.limits import Limits
from mantamq.protocol.log.acceptor import Acceptor
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.machine import SEQUENCER, Flush, Input, Multicast, PeerDown, PeerUp, Received, Retire, Send, Tick
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.timing import DEFAULT_TIMING, Timing
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame
from mantamq.protocol.wire.log_frames import (
    Append,
    Evicted,
    Fetch,
    Heartbeat,
    Prepare,
    Promise,
    Suspect,
    Update,
    UpdateStart,
)
from msgspec import Struct

NODES = ("b1", "b2", "b3")
Output = tuple[str, int]
"""(peer, number of the frame)"""


class Node(Acceptor):
    """A broker with nothing but its keeper of the cluster stream."""

    def __init__(self, name: str, inc: int, blank: bool, members: list[str]) -> None:
        super().__init__()
        self.name = name
        self.inc = inc
        self.out = False
        self.keeper = Keeper(CLUSTER, name, inc, blank, voters=members)

    def keepers(self) -> Iterable[Keeper]:
        return [self.keeper]

    def keeper_of(self, stream: str) -> Keeper | None:
        return self.keeper

    def pledge(self) -> None:
        leader = self.view.leader
        self.send(leader, self.keeper.log_report())
        self.send(leader, Promise(self.view.promised, self.name, self.inc, self.keeper.blank, []))

    def attached(self) -> None:
        self._acknowledge()

    def _acknowledge(self) -> None:
        if not self.keeper.blank or self.keeper.end:
            self.lead(self.keeper.ack(self.keeper.commit))

    def step(self, input: Input) -> list[Any]:
        match input:
            case PeerUp(peer):
                self.view.up(peer)
            case PeerDown(peer):
                self.view.down(peer, 0)
            case Received(peer, Append() as frame):
                if self.follow(peer, frame.ballot):
                    _, refusal = self.keeper.append(frame)
                    if refusal is not None:
                        self.send(peer, refusal)
                    else:
                        self._acknowledge()
            case Received(peer, Prepare() as frame):
                self.prepare(peer, frame)
            case Received(peer, Heartbeat() as frame):
                self.heartbeat(peer, frame)
            case Received(peer, Fetch() as frame):
                self.fetch(peer, frame)
            case Received(peer, Update() as frame) if not self.keeper.blank:
                self.send(peer, self.keeper.update(self.name, frame.updatee, None))
            case Received(peer, UpdateStart() as frame) if self.keeper.blank:
                self.keeper.restore(frame)
                self.send(self.view.leader, self.keeper.log_report())
            case Received(peer, Evicted()) if peer == self.view.leader:
                self.out = True
            case _:
                pass
        return self.take()


class NodeView:
    """A node, as the checks look at it: `log` is index -> entry, behind `base`."""

    __slots__ = ("base", "best", "blank", "commit", "end", "inc", "log", "out", "promised")

    def __init__(self, node: Node) -> None:
        keeper = node.keeper
        self.promised = keeper.promised
        self.log = dict(keeper._log)
        self.base, self.end, self.commit = keeper.base, keeper.end, keeper.commit
        self.best = (keeper.end_ballot, keeper.end)
        self.blank, self.inc, self.out = keeper.blank, node.inc, node.out


class SequencerView:
    """A sequencer, as the checks look at it. `votes`: voter -> (incarnation, whether an entry gave it its vote)."""

    __slots__ = ("ballot", "base", "commit", "end", "log", "ready", "role", "stopped", "votes")

    def __init__(self, machine: SequencerMachine) -> None:
        stream = machine.order.streams.get(CLUSTER)
        self.ballot, self.role = machine.order.ballot, machine.election.role.value
        self.stopped = machine.election.deposed is not None
        self.ready = stream is not None and stream.ready
        self.log = dict(stream.log) if stream is not None and self.ready else {}
        self.base = stream.base if stream is not None and self.ready else 0
        self.end = stream.end if stream is not None and self.ready else 0
        self.commit = stream.commit if stream is not None and self.ready else 0
        self.votes: dict[str, tuple[int, bool]] = {}
        if stream is not None:
            for voter, keeper in stream.keepers.items():
                if keeper.voting and keeper.log_inc > 1:
                    self.votes[voter] = (keeper.log_inc, stream.incs.get(voter, 0) >= keeper.log_inc)


_SHARED: list[Timing | Limits] = []


def _shared(number: int) -> Timing | Limits:
    return _SHARED[number]


def _share(value: Timing | Limits) -> tuple[Any, ...]:
    known = next((number for number, one in enumerate(_SHARED) if one is value), len(_SHARED))
    if known == len(_SHARED):
        _SHARED.append(value)
    return _shared, (known,)


class _Pickler(pickle.Pickler):
    """Machines share their times and limits, which never change: no state holds a copy of its own."""

    dispatch_table = copyreg.dispatch_table | {Timing: _share, Limits: _share}

    def reducer_override(self, obj: Any) -> Any:
        """What is called when a record is on disk knows its surroundings: such a function goes by its code and those."""
        if type(obj) is FunctionType and obj.__closure__ is not None:
            made = _function, (marshal.dumps(obj.__code__), obj.__module__, obj.__qualname__, obj.__defaults__)
            return *made, [cell.cell_contents for cell in obj.__closure__], None, None, _surround
        return NotImplemented


def _function(code: bytes, module: str, name: str, defaults: tuple[Any, ...] | None) -> FunctionType:
    made = marshal.loads(code)
    cells = tuple(CellType() for _ in made.co_freevars)
    function = FunctionType(made, sys.modules[module].__dict__, made.co_name, defaults, cells)
    function.__qualname__ = name
    return function


def _surround(function: FunctionType, contents: list[Any]) -> None:
    for cell, content in zip(function.__closure__ or (), contents, strict=True):
        cell.cell_contents = content


class Space:
    """All machine states and frames met so far, by number.

    Attributes:
        views: what the checks look at, by number of the machine's state.
    """

    def __init__(self) -> None:
        self._number_of: dict[Any, int] = {}
        self._pickles: list[bytes] = []
        self.views: list[Any] = []
        self._frame_of: dict[bytes, int] = {}
        self.frames: list[Frame] = []
        self._steps: dict[tuple[int, Any], tuple[int, tuple[Output, ...]]] = {}

    def put(self, machine: Any) -> int:
        key = canonical(machine)
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self._pickles)
            _Pickler(written := io.BytesIO()).dump(machine)
            self._pickles.append(written.getvalue())
            self.views.append(NodeView(machine) if isinstance(machine, Node) else SequencerView(machine))
        return number

    def machine(self, number: int) -> Any:
        return pickle.loads(self._pickles[number])

    def frame(self, frame: Frame) -> int:
        data = encode_frame(frame)
        number = self._frame_of.get(data)
        if number is None:
            number = self._frame_of[data] = len(self.frames)
            (frame,) = FrameBuffer().feed(data)
            self.frames.append(frame)
        return number

    def step(self, machine: int, input: tuple[Any, ...]) -> tuple[int, tuple[Output, ...]]:
        """One batch of one input. Input: ("got", peer, frame number), ("up" or "down", peer), ("grace",), ("suspect",
        broker, ballot)."""
        known = self._steps.get((machine, input))
        if known is None:
            known = self._steps[machine, input] = self._step(machine, input)
        return known

    def _step(self, number: int, input: tuple[Any, ...]) -> tuple[int, tuple[Output, ...]]:
        machine = self.machine(number)
        match input:
            case ("got", peer, frame):
                given: Input = Received(peer, self.frames[frame])
            case ("up", peer):
                given = PeerUp(peer)
            case ("down", peer):
                given = PeerDown(peer)
            case ("suspect", broker, ballot):
                given = Received(broker, Suspect(ballot, broker))
            case _:
                given = Tick(DEFAULT_TIMING.recovery_grace_ms)
        effects = machine.step(given) + machine.step(Flush())
        said: list[Output] = []
        for effect in effects:
            if type(effect) is Send:
                said.append((effect.peer, self.frame(effect.frame)))
            elif type(effect) is Multicast:
                said += ((peer, self.frame(effect.frame)) for peer in effect.peers)
            elif type(effect) is Retire and isinstance(machine, Node):
                machine.out = True
        return self.put(machine), tuple(said)


def canonical(value: Any, met: dict[int, int] | None = None) -> Any:
    """A value that is equal for equal machines. A machine's parts are gone through once, where they are met first;
    what is only a value (a frame, an entry, an event) is compared as one, whoever shares it."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if met is None:
        met = {}
    if kind is dict:
        return ("d", tuple([(key, canonical(item, met)) for key, item in value.items()]))
    if kind is list or kind is tuple or kind is deque:
        return ("l", tuple([canonical(item, met) for item in value]))
    if kind is set:
        return ("s", tuple(sorted(value)))
    if isinstance(value, Enum):
        return value.name
    if kind in (Timing, Limits):
        return None
    if isinstance(value, Struct):
        return (kind.__name__, tuple([canonical(getattr(value, name), met) for name in value.__struct_fields__]))
    if kind is MethodType:
        return ("m", value.__qualname__, canonical(value.__self__, met))
    if kind is FunctionType:
        return (
            "f",
            value.__qualname__,
            tuple([canonical(cell.cell_contents, met) for cell in value.__closure__ or ()]),
        )
    known = met.get(id(value))
    if known is not None:
        return ("again", known)
    met[id(value)] = len(met)
    names = getattr(value, "__dict__", None)
    if names is None:
        names = [name for cls in kind.__mro__ for name in cls.__dict__.get("__slots__", ())]
    return (kind.__name__, tuple([canonical(getattr(value, name), met) for name in names]))


_PLAIN = frozenset((int, str, bytes, bool, float, type(None)))


def sequencer_name(number: int) -> str:
    return SEQUENCER if number == 0 else f"{SEQUENCER}{number + 1}"
