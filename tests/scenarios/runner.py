"""Plays a scenario: text blocks of commands, each followed by what then happened.

A block is one or more commands (carried out at the same moment), a line ``----``, and the trace: what clients were
told and which events of messages and of the consume lock were committed, in order. Commands of clients:

    client NAME BROKER                      connect
    NAME sender HANDLE QUEUE                attach; EXCHANGE/KEY for an exchange
    NAME send HANDLE BODY...                transfer
    NAME receiver HANDLE QUEUE [browse] [accept=no] [no-local]
    NAME credit HANDLE COUNT [bytes=N] [drain]
    NAME accept|release|reject HANDLE ACQUISITION:FIRST-LAST...
    NAME detach HANDLE
    NAME vanish                             its connection breaks
    NAME COMMAND [key=value]...             a management command

Commands to the cluster; a PROCESS is b1 (a broker), b1.r0 (a replica of it), sequencer, sequencer2, ownership:

    kill PROCESS...                         they die, and do not come back by themselves
    start PROCESS...                        the next of its kind: a standby, a replica, a broker back blank
    pause PROCESS... / resume PROCESS...    they stand still, their links stay open
    cut PROCESS PROCESS [MS] / heal PROCESS PROCESS
                                            the link breaks, until it is healed
    takeover SEQUENCER                      every broker asks this standby to take over
    join BROKER / leave BROKER              a member comes, blank; a member is asked to leave
    limit entries N                         how far a voter may be behind: flow control begins at 80 % of it; the
                                            first command of a story, since a cluster begins with its limits
    wait MS                                 let time pass (a block takes 30 ms by itself)
    state QUEUE                             the replicas' state
    show [KIND[:QUEUE]]...                  from here on the trace has these kinds of frames between members, where they
                                            arrive, and of other events, where they are committed; of one queue only, or
                                            of the cluster stream (``:cluster``)

Equal frames from one process, or to one, that arrive one behind the other are one line.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.wire import events
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.kinds import KIND_OF

from tests.simulation.checkers import Watcher, delivery_counts
from tests.simulation.clients import Client
from tests.simulation.deliveries import Deliveries
from tests.simulation.model import ModelQueue

from .stage import FOREVER_US, Stage
from .traces import KINDS, between_members, of_cluster, of_messages, ranges_in_words, stream_of, to_client

RULE = "----"
STEP_US = 30_000
"""Longer than a commit takes to reach a broker that does not act on it."""
SHOWABLE = {kind.__name__ for kind in (*KIND_OF, *events.AnyEvent.__args__)}
DEADLY = {"start", "kill", "pause", "takeover"}
"""Commands behind which a term or an incarnation may be over, and the checkers expect late words of it."""


class Scenario:
    """A cluster on its stage, the checkers of the simulator, and the clients a text file names."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.world = Stage(limits)
        self.watch = Watcher(self.world)
        self.clients: dict[str, Client] = {}
        self.lines: list[str] = []
        self._wait_us = STEP_US
        self._shown: set[str] = set()
        self._last: tuple[list[str], list[str], str] = [], [], ""  # sources, targets, text of the last frame's line
        Deliveries(self.world, self.watch)
        self.world.arrivals.append(self._arrived)
        self.world.deaths.append(lambda name, machine: self._say(f"{name} ends"))
        self.world.closings.append(lambda broker, client, why: self._say(f"{broker} closes {client}: {why}"))
        self.watch.on_commit.append(self._committed)
        self.watch.on_wiring.append(lambda event: self._told(events.CLUSTER, event))
        self._commands: dict[str, Callable[..., None]] = {
            "wait": self._wait, "state": self._state, "show": self._show, "client": self._client, "limit": self._limit,
            "kill": self._kill, "start": self._start, "pause": self._pause, "resume": self._resume, "cut": self._cut,
            "heal": self.world.heal, "takeover": self.world.suspect_leader, "join": self.world.join,
            "leave": self.world.remove_broker,
        }  # fmt: skip
        self.world.run_for(STEP_US)

    def play(self, commands: list[str]) -> list[str]:
        """Carry out one block; returns its trace."""
        self.lines, self._last = [], ([], [], "")
        posted = self.world.posted
        self._wait_us = STEP_US
        for command in commands:
            words = command.split()
            if words[0] in self._commands:
                self.watch.faulty = self.watch.faulty or words[0] in DEADLY
                self._commands[words[0]](*words[1:])
            else:
                self._do(self.clients[words[0]], words[1], words[2:])
        self.world.run_for(self._wait_us)
        if self.world.posted == posted and not self.lines:
            self.lines.append("(nothing at all is sent)")
        for name in self.world.machines:
            self.watch.compare(name, True)
        return self.lines or ["(nothing to be seen)"]

    # ---- commands to the cluster

    def _client(self, name: str, broker: str) -> None:
        self.clients[name] = Client(self.world, name, broker)

    def _wait(self, ms: str) -> None:
        self._wait_us = int(ms) * 1000

    def _show(self, *kinds: str) -> None:
        for kind in kinds:
            if kind.partition(":")[0] not in SHOWABLE:
                raise ValueError(f"show {kind}: no kind of frame or event has this name")
        self._shown = set(kinds)

    def _limit(self, what: str, count: str) -> None:
        if what != "entries":
            raise ValueError(f"limit {what}: only entries are limited")
        if int(count) != self.world.limits.backlog_entries:
            raise ValueError(f"limit {what}: a story begins with it")

    def _kill(self, *names: str) -> None:
        for name in names:
            self.world.crash(name)

    def _start(self, *names: str) -> None:
        for name in names:
            self.world.start(name)

    def _pause(self, *names: str) -> None:
        for name in names:
            self.world.pause(name, FOREVER_US)

    def _resume(self, *names: str) -> None:
        for name in names:
            self.world.resume(name)

    def _cut(self, a: str, b: str, ms: str = "") -> None:
        self.world.cut_link(a, b, int(ms) * 1000 if ms else FOREVER_US)

    def _state(self, name: str) -> None:
        id = self.watch.wiring.ids[name]
        found: dict[str, list[str]] = {}
        for machine_name, machine in self.world.machines.items():
            if "." in machine_name and id in machine.queues:
                state = machine.queues[id].state
                held = [
                    f"{key[0]} {key[2]}:{ranges_in_words(parts.flat())}"
                    for key, parts in sorted(state.acquired.items())
                ]
                text = (
                    f"available {ranges_in_words(state.available.flat())}; held {' '.join(held) or '-'}; "
                    f"owner {state.owner or '-'}; {state.handovers} hand-overs; returned {delivery_counts(state) or '-'}"
                )
                found.setdefault(text, []).append(machine_name.partition(".")[0])
        self.lines += [f"{' '.join(sorted(brokers))}: {text}" for text, brokers in sorted(found.items())]

    # ---- commands of clients

    def _do(self, client: Client, verb: str, rest: list[str]) -> None:
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        match verb:
            case "sender":
                exchange, _, key = rest[1].rpartition("/")
                assert client.attach_sender(exchange, key) == int(rest[0])
            case "send":
                client.transfer_bodies(int(rest[0]), [body.encode() for body in rest[1:]])
            case "receiver":
                mode = "browse" if "browse" in rest else "consume"
                accept, own = options.get("accept") != "no", "no-local" in rest
                assert client.attach_receiver(rest[1], mode, accept, no_local=own) == int(rest[0])
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

    # ---- the trace

    def _say(self, line: str) -> None:
        self.lines.append(line)
        self._last = [], [], ""

    def _arrived(self, source: str, target: str, frame: Frame) -> None:
        if target in self.clients:
            self._say(f"{source} tells {target}: {to_client(frame)}")
        elif self._is_shown(type(frame), stream_of(frame)):
            self._frame(source, target, between_members(frame))

    def _frame(self, source: str, target: str, text: str) -> None:
        sources, targets, last = self._last
        if text == last and (sources == [source] or targets == [target]):
            sources += [source] if source not in sources else []
            targets += [target] if target not in targets else []
            self.lines.pop()
        else:
            self._last = sources, targets, _ = [source], [target], text
        self.lines.append(f"{' '.join(sources)} to {' '.join(targets)}: {text}")

    def _is_shown(self, kind: type, stream: str) -> bool:
        name = kind.__name__
        return name in self._shown or f"{name}:{stream.partition('#')[0]}" in self._shown

    def _committed(self, stream: str, event: events.AnyEvent, model: ModelQueue, effective: bool) -> None:
        self._told(stream, event, effective)

    def _told(self, stream: str, event: events.AnyEvent, effective: bool = True) -> None:
        text = of_messages(event) or (of_cluster(event) if self._is_shown(type(event), stream) else "")
        if text:
            self._say(f"{stream}: {text}{'' if effective else ' (void)'}")


def _items(word: str) -> list[tuple[int, int]]:
    acquisition, _, span = word.partition(":")
    first, _, last = span.partition("-")
    return [(int(acquisition), position) for position in range(int(first), int(last or first) + 1)]


def _value(text: str) -> Any:
    return int(text) if text.isdigit() else text


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


def limits_of(command: str) -> Limits:
    """The limits of a story whose first command this is."""
    match command.split():
        case ["limit", "entries", count]:
            return Limits(backlog_entries=int(count))
        case _:
            return DEFAULT


def replay(path: Path) -> str:
    """The file as it would be recorded now."""
    blocks = parse(path.read_text())
    scenario = Scenario(limits_of(blocks[0][1][0]))
    parts: list[str] = []
    for head, commands, _ in blocks:
        parts += [*([head] if head else []), *commands, RULE, *scenario.play(commands), ""]
    return "\n".join(parts)
