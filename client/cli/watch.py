"""`watch queue`: one queue, drawn anew each second: depth, rates, its consume lock, its replicas, who is held back."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ...protocol.errors import LocalError
from .console import Broker, Json, Namespace, Ray, Token, out
from .live import Every, HowShown, Once, follow, looking, sparkline
from .sheets import GAP, byte_count, span
from .status import BAD, GOOD, SOON
from .top import troubles

PARTS = ("queues", "connections")
NAMED = 3
"""Moves and clients that a line names; the rest are counted."""
LINE = 40
"""Points of a line of history at most."""


def register(app: typer.Typer) -> None:
    watch = typer.Typer(help="One thing of the cluster, live, until Ctrl-C.", no_args_is_help=True)
    watch.command("queue")(watch_queue)
    app.add_typer(watch, name="watch")


def watch_queue(
    name: Annotated[str, typer.Argument(help="of the queue")],
    every: Every = 1.0, once: Once = False, broker: Broker = "", token: Token = "", address: Ray = "",
    namespace: Namespace = "", as_json: Json = False,
) -> None:  # fmt: skip
    """One queue, until Ctrl-C or until it is deleted: depth, rates, consume lock, replicas, senders held back."""
    with looking(broker, token, address, namespace, PARTS) as looks:
        page = QueuePage(looks.view, name)
        follow(looks, page, HowShown(every, once, as_json))


class QueuePage:
    """
    Args:
        view: a `ManagementView`.
        name: of the queue.
    """

    def __init__(self, view: Any, name: str) -> None:
        self._view = view
        self._name = name
        self._id = ""

    def end(self) -> str:
        """Raises:
        LocalError: there has been no such queue, or it is not known whether there is.
        """
        row = self._view.queue(self._name)
        if not self._id:
            if row is None:
                why = self._view.troubles.get("statistics")
                raise LocalError(why or f"there is no queue {self._name!r}: `mantamq queue list` names those there are")
            self._id = row["id"]
        if row is None:
            return f"queue {self._name} has been deleted"
        if row["id"] != self._id:
            return f"queue {self._name} has been deleted; there is another one of this name now"
        return ""

    def drawn(self, height: int) -> Group:
        lines = Table.grid(padding=(0, GAP, 0, 0))
        lines.add_column(style="dim", no_wrap=True)
        lines.add_column(overflow="fold")
        for name, value in [*self._now(), *self._history(), *self._care()]:
            lines.add_row(name, value if isinstance(value, Text) else Text(value))
        return Group(lines, *troubles(self._view))

    def plain(self) -> dict[str, Any]:
        moves = [move._asdict() for move in self._view.lock_moves(self._name)]
        return {
            "time_s": self._view.time_s, "queue": self._view.queue(self._name), "lock_moves": moves,
            "replicas": self._view.replicas(self._id), "held_back": self._held_back(),
            "silent": self._view.silent, "troubles": dict(self._view.troubles),
        }  # fmt: skip

    def _now(self) -> list[tuple[str, str | Text]]:
        row = self._view.queue(self._name)
        if "error" in row:
            return [("queue", self._name), ("trouble", Text(str(row["error"]), BAD))]
        queue = SimpleNamespace(**dict.fromkeys(_NUMBERS, 0) | row)
        kind = f"{row.get('kind', '?')}, {'durable' if getattr(queue, 'durable', False) else 'transient'}"
        count = f"{queue.messages:,}: {queue.available:,} available, {queue.acquired:,} unacked"
        count += f", {queue.delayed:,} delayed" if queue.delayed else ""
        at = ", ".join(f"{count:,} at {broker}" for broker, count in sorted(row.get("consumers_at", {}).items()))
        return [
            ("queue", f"{self._name} ({kind}) at {time.strftime('%H:%M:%S', time.localtime(self._view.time_s))}"),
            ("messages", f"{count}; {byte_count(queue.bytes)}"),
            ("oldest", span(queue.age_ms / 1000) if queue.age_ms else "-"),
            ("a second", _rates(row["rates"])),
            ("consumers", f"{queue.consumers:,}{f' ({at})' * bool(at)}"),
        ]

    def _history(self) -> list[tuple[str, str | Text]]:
        chart, found = self._view.chart(self._name), []
        for name, series in (("depth", "messages"), ("in", "enqueued"), ("out", "dequeued")):
            values = chart[series]
            if len(values) > 1:
                line = sparkline(values, LINE, out.options.ascii_only)
                last = values[-LINE:]
                figures = f"{min(last):,.0f} to {max(last):,.0f}{'' if name == 'depth' else '/s'}"
                found.append((f"{name}, lately", Text.assemble((line, GOOD), f" {figures}")))
        return found

    def _care(self) -> list[tuple[str, str | Text]]:
        row = self._view.queue(self._name)
        queue = SimpleNamespace(**dict.fromkeys(_NUMBERS, 0) | row)
        moves = self._view.lock_moves(self._name)
        words = [
            f"{move.before or 'nobody'} to {move.owner or 'nobody'} {span(self._view.time_s - move.time_s)} ago"
            for move in moves[:NAMED]
        ]
        words += [f"{len(moves) - NAMED} more in the last minute"] * (len(moves) > NAMED)
        lines: list[tuple[str, str | Text]] = [
            ("consume lock", f"{row.get('owner') or 'nobody has it'}; hand-overs so far: {queue.handovers:,}"),
            *([("lock moves", ", ".join(words))] if words else []),
        ]
        replicas = self._view.replicas(self._id)
        for number, one in enumerate(SimpleNamespace(**found) for found in replicas):
            lines.append(("" if number else "replicas", _replica(one)))
        if not replicas:
            lines.append(("replicas", Text("not known", SOON)))
        return [*lines, ("held back", self._held_text())]

    def _held_back(self) -> list[dict[str, Any]]:
        """The connections that this queue holds back, or the whole cluster."""
        return [one for one in self._view.flow()["connections"] if self._name in one.get("held_back_by", ())]

    def _held_text(self) -> Text:
        clients = [f"{one['client']} at {one['broker']}" for one in self._held_back()]
        stopped = any(one["id"] == self._id for one in self._view.flow()["queues"])
        more = f" and {len(clients) - NAMED} more" if len(clients) > NAMED else ""
        if clients:
            return Text(f"{', '.join(clients[:NAMED])}{more}: the queue waits for its consumers", SOON)
        return Text("whoever sends now: the queue waits for its consumers", SOON) if stopped else Text("nobody")


_NUMBERS = ("messages", "available", "acquired", "delayed", "bytes", "age_ms", "consumers", "handovers")


def _rates(rates: dict[str, float]) -> str:
    if not rates:
        return "known at the next look"
    said = SimpleNamespace(**rates)
    words = [f"{said.enqueued:,.1f} in", f"{said.dequeued:,.1f} out"]
    others = (
        (said.acquires, "acquired"),
        (said.releases, "released"),
        (said.discarded, "discarded"),
        (said.dead_lettered, "dead-lettered"),
        (said.expired, "expired"),
    )
    return ", ".join([*words, *(f"{rate:,.1f} {how}" for rate, how in others if rate)])


def _replica(one: SimpleNamespace) -> Text:
    behind = f", {one.lag:,} behind" if one.lag else ""
    count = f", {one.messages:,} messages" if one.messages is not None else ""
    update = SimpleNamespace(**one.update) if one.update else None
    progress = ""
    if update is not None and not update.ended_ms:
        progress = f", {update.messages:,} of {update.depth:,} have come"
    color = {"in step": GOOD, "missing": BAD}.get(one.state, SOON)
    return Text.assemble(f"{one.broker}  ", (one.state, color), f"{behind}{count}{progress}")
