"""Plays a scenario: text blocks of commands, each followed by what then happened.

A block is one or more commands (carried out at the same moment), a line ``----``, and the trace: what clients were
told and what was committed, in order. Commands:

    client NAME BROKER                      connect
    NAME sender HANDLE QUEUE                attach; EXCHANGE/KEY for an exchange
    NAME send HANDLE BODY...                transfer
    NAME receiver HANDLE QUEUE [browse] [accept=no]
    NAME credit HANDLE COUNT [bytes=N] [drain]
    NAME accept|release|reject HANDLE ACQUISITION:FIRST-LAST...
    NAME detach HANDLE
    NAME vanish                             its connection breaks
    NAME COMMAND [key=value]...             a management command
    cut MACHINE MACHINE MS                  a link breaks for so long
    wait MS                                 let time pass (a block takes 30 ms by itself)
    state QUEUE                             the replicas' state
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from mantamq.protocol.ranges import pairs, runs
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import Delivery, Detached, Disposed, Failed, Opened, Reply
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.queue_frames import ACCEPT, REJECT, RELEASE

from tests.simulation.checkers import Watcher
from tests.simulation.clients import Client
from tests.simulation.deliveries import Deliveries
from tests.simulation.model import ModelQueue
from tests.simulation.world import World

RULE = "----"
STEP_US = 30_000
"""Longer than a commit takes to reach a broker that does not act on it."""
KINDS = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT}


class Scenario:
    """A cluster of three brokers with fixed delays, and the clients a text file names."""

    def __init__(self) -> None:
        self.world = World(random.Random(1), codec=True, fixed=True, replicas=2, slice_ms=20)
        self.watch = Watcher(self.world)
        self.clients: dict[str, Client] = {}
        self.lines: list[str] = []
        Deliveries(self.world, self.watch)
        self.world.arrivals.append(self._told)
        self.watch.on_commit.append(self._committed)
        self.world.run_for(STEP_US)

    def play(self, commands: list[str]) -> list[str]:
        """Carry out one block; returns its trace."""
        self.lines = []
        posted = self.world.posted
        wait_us = STEP_US
        for command in commands:
            words = command.split()
            if words[0] == "wait":
                wait_us = int(words[1]) * 1000
            elif words[0] == "state":
                self._state(words[1])
            else:
                self._do(words)
        self.world.run_for(wait_us)
        if self.world.posted == posted and not self.lines:
            self.lines.append("(nothing at all is sent)")
        for name in self.world.machines:
            self.watch.compare(name, True)
        return self.lines or ["(nothing to be seen)"]

    def _do(self, words: list[str]) -> None:
        if words[0] == "client":
            self.clients[words[1]] = Client(self.world, words[1], words[2])
            return
        if words[0] == "cut":
            self.world.cut_link(words[1], words[2], int(words[3]) * 1000)
            return
        client, verb, rest = self.clients[words[0]], words[1], words[2:]
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        match verb:
            case "sender":
                exchange, _, key = rest[1].rpartition("/")
                assert client.attach_sender(exchange, key) == int(rest[0])
            case "send":
                client.transfer_bodies(int(rest[0]), [body.encode() for body in rest[1:]])
            case "receiver":
                mode = "browse" if "browse" in rest else "consume"
                assert client.attach_receiver(rest[1], mode, options.get("accept") != "no") == int(rest[0])
            case "credit":
                client.flow(int(rest[0]), int(rest[1]), int(options.get("bytes", -1)), "drain" in rest)
            case "accept" | "release" | "reject":
                client.settle(int(rest[0]), KINDS[verb], [item for word in rest[1:] for item in _items(word)])
            case "detach":
                client.detach(int(rest[0]))
            case "vanish":
                self.world.cut_client(client.name, client.broker)
            case _:
                client.command(verb, **{key: _value(value) for key, value in options.items()})

    def _told(self, source: str, target: str, frame: Frame) -> None:
        if target in self.clients:
            self.lines.append(f"{source} tells {target}: {_frame(frame)}")

    def _committed(self, stream: str, event: events.AnyEvent, model: ModelQueue, effective: bool) -> None:
        text = _event(event)
        if text:
            self.lines.append(f"{stream}: {text}{'' if effective else ' (void)'}")

    def _state(self, name: str) -> None:
        id = self.watch.wiring.ids[name]
        found: dict[str, list[str]] = {}
        for machine_name, machine in self.world.machines.items():
            if "." in machine_name and id in machine.queues:
                state = machine.queues[id].state
                held = [f"{key[0]} {key[2]}:{_ranges(parts.flat())}" for key, parts in sorted(state.acquired.items())]
                text = (
                    f"available {_ranges(state.available.flat())}; held {' '.join(held) or '-'}; "
                    f"owner {state.owner or '-'}; {state.handovers} hand-overs; returned {state.deliveries or '-'}"
                )
                found.setdefault(text, []).append(machine_name.partition(".")[0])
        self.lines += [f"{' '.join(sorted(brokers))}: {text}" for text, brokers in sorted(found.items())]


def _items(word: str) -> list[tuple[int, int]]:
    acquisition, _, span = word.partition(":")
    first, _, last = span.partition("-")
    return [(int(acquisition), position) for position in range(int(first), int(last or first) + 1)]


def _value(text: str) -> Any:
    return int(text) if text.isdigit() else text


def _ranges(flat: list[int]) -> str:
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs(flat)) or "-"


def _runs(flat: list[int]) -> str:
    merged: list[list[int]] = []
    for acquisition, first, last in runs(flat):
        if merged and merged[-1][0] == acquisition and merged[-1][2] == first - 1:
            merged[-1][2] = last
        else:
            merged.append([acquisition, first, last])
    return " ".join(f"{a}:{_ranges([first, last])}" for a, first, last in merged) or "-"


def _frame(frame: Frame) -> str:
    match frame:
        case Opened():
            return "opened"
        case Delivery():
            bodies = b" ".join(frame.blobs).decode()
            again = "".join(f", {frame.blobs[i].decode()} returned {n} times" for i, n in pairs(frame.redelivered))
            return f"{frame.handle} gets {frame.acquisition}:{_ranges(frame.ranges)} {bodies}{again}"
        case Disposed():
            return f"{frame.handle} settlement {frame.number} done" + (
                f", lost {_runs(frame.lost)}" if frame.lost else ""
            )
        case Reply():
            return (
                f"reply {frame.number} {frame.code}: {frame.text}"
                if frame.code
                else f"reply {frame.number} {frame.value}"
            )
        case Detached() | Failed():
            return f"{frame.handle} {type(frame).__name__.lower()} {frame.code} {frame.text}".rstrip()
        case _:
            rest = [_ranges(frame.ranges)] if hasattr(frame, "ranges") else []
            return " ".join([str(getattr(frame, "handle", "")), type(frame).__name__.lower(), *rest])


def _event(event: events.AnyEvent) -> str:
    match event:
        case events.Enqueue():
            return f"enqueue {b' '.join(event.blobs).decode()}"
        case events.Acquire():
            return f"acquire by {event.broker} {_runs(event.runs)}" + (" and accept" if event.accepted else "")
        case events.Accept() | events.Release() | events.Reject():
            return f"{type(event).__name__.lower()} by {event.broker} {_runs(event.runs)}"
        case events.Own():
            by = f", given up by {event.by}" if event.by else ""
            return f"own {event.grant} to {event.broker or 'nobody'}{by}"
        case events.Buried():
            return f"buried: what event {event.batch} rejected"
        case events.Expire():
            return f"expire {_ranges(event.ranges)}"
        case events.Purge():
            return "purge"
        case _:
            return ""


def parse(text: str) -> list[tuple[str, list[str], list[str]]]:
    """The file's blocks: (comments and blank lines before it, commands, expected trace)."""
    blocks: list[tuple[str, list[str], list[str]]] = []
    head: list[str] = []
    commands: list[str] = []
    trace: list[str] | None = None
    for line in [*text.splitlines(), ""]:
        if trace is not None and line:
            trace.append(line)
        elif trace is not None:
            blocks.append(("\n".join(head), commands, trace))
            head, commands, trace = [], [], None
        elif line == RULE:
            trace = []
        elif commands or (line and not line.startswith("#")):
            if not line:
                raise ValueError(f"a block needs a line {RULE} behind its commands {commands}")
            commands.append(line)
        else:
            head.append(line)
    return blocks


def replay(path: Path) -> str:
    """The file as it would be recorded now."""
    scenario = Scenario()
    parts: list[str] = []
    for head, commands, _ in parse(path.read_text()):
        parts += [*([head] if head else []), *commands, RULE, *scenario.play(commands), ""]
    return "\n".join(parts)
