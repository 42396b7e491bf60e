"""Looks at a cluster, one after the other, and what is shown of them: a screen drawn anew, or an object for each.

The model of the cluster is `../../management/view.py`: this command's own, fed here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from typing import Annotated, Any, NamedTuple, Protocol

import typer
from rich.console import RenderableType
from rich.live import Live

from ...protocol.errors import LocalError
from ...protocol.status.cluster import ClusterStatus
from ..errors import MantaError
from ..sync.sync import Connection, connect
from .asking import StatusAsker
from .console import addresses, connection, out

Every = Annotated[float, typer.Option("--every", min=0.1, help="seconds from look to look")]
Once = Annotated[bool, typer.Option("--once", help="once, after the two looks that rates need")]
SEEK_S = 2.0
"""How long another broker is looked for at each look: meanwhile nothing is shown anew."""
MARKS, ASCII_MARKS = "▁▂▃▄▅▆▇█", "_.-=+*%#"


class HowShown(NamedTuple):
    """Attributes: every, seconds from look to look; once, print it and end; as_json, an object a line for each look."""

    every: float
    once: bool
    as_json: bool


class Page(Protocol):
    """What is shown of the last look."""

    def drawn(self, height: int) -> RenderableType:
        """For a terminal. `height`: lines that it has, 0 for as many as wanted."""
        ...

    def plain(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        ...

    def end(self) -> str:
        """Why there is nothing more to show, "" while there is."""
        ...


class ClusterLooks:
    """Feeds a view.

    Args:
        connection: who is asked for statistics.
        anew: connects again when that one is lost for good.
        status: asks for the status of the members; None: it is not to be had.
        parts: what statistics are asked for; none: all.

    Attributes:
        view: the model of the cluster.
    """

    def __init__(
        self, connection: Connection, anew: Callable[[], Connection], status: Callable[[], ClusterStatus] | None,
        parts: Sequence[str] = (),
    ) -> None:  # fmt: skip
        from ...management.view import ManagementView

        self.view = ManagementView()
        self._connection = connection
        self._anew = anew
        self._status = status
        self._parts = tuple(parts)

    def look(self) -> None:
        """Look once. What is not to be had is a trouble of the view, and no error."""
        from ...management.view import Sample

        troubles: dict[str, str] = {}
        if self._status is None:
            troubles["status"] = "with --broker alone it is not asked for; --address names the Ray that knows it"
        status = self._asked("status", self._status, troubles) if self._status is not None else None
        found = self._asked("statistics", self._statistics, troubles)
        self.view.take(Sample(time.monotonic(), time.time(), status, found or {}, troubles))

    def _statistics(self) -> Any:
        if self._connection.failed:  # it has looked for another broker in vain; there may be one by now
            self._connection = self._anew()
        return self._connection.statistics(*self._parts)

    def close(self) -> None:
        self._connection.close()

    def _asked(self, what: str, ask: Callable[[], Any], troubles: dict[str, str]) -> Any:
        try:
            return ask()
        except (MantaError, LocalError, OSError) as error:
            troubles[what] = str(error) or type(error).__name__
        return None


@contextmanager
def looking(
    broker: str, token: str, address: str, namespace: str, parts: Sequence[str] = ()
) -> Generator[ClusterLooks]:
    """Looks at the cluster that the options speak of.

    Raises:
        LocalError, MantaError: there is none, and what to do.
    """
    known = bool(address or namespace) or not broker
    with closing(StatusAsker(address, namespace, token)) as status:

        def members() -> str:
            found = ",".join(status().members.values())
            if not found:
                raise LocalError("no broker of the cluster takes clients now: `mantamq status` says why")
            return found

        if not broker and (address or namespace):  # not the one that is remembered, maybe
            broker = members()
        looks = ClusterLooks(
            connection(broker, token, reconnect_s=SEEK_S),
            # Without addresses `connect` would look for a Ray, and join it.
            lambda: connect(addresses(broker) or members(), token, timeout=SEEK_S, reconnect_s=SEEK_S),
            status if known else None,
            parts,
        )
        with closing(looks):
            yield looks


def follow(looks: ClusterLooks, page: Page, how: HowShown) -> None:
    """Show a page until it ends, or Ctrl-C; once, if that is wanted."""
    looks.look()
    if how.once or how.as_json or not out.is_terminal:
        while not page.end():
            time.sleep(how.every)
            looks.look()
            if page.end():
                break
            if how.as_json:
                print(json.dumps(page.plain(), default=str), flush=True)
            else:
                out.print(page.drawn(0))
            if how.once:
                return
    else:
        with Live(console=out, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
            while not page.end():
                live.update(page.drawn(out.size.height), refresh=True)
                began_s = time.monotonic()
                looks.look()
                took_s = time.monotonic() - began_s
                # A large cluster is looked at for half of the time at most.
                time.sleep(max(how.every - took_s, took_s, 0.0))
    if how.as_json:
        print(json.dumps({"end": page.end()}), flush=True)
    else:
        out.print(page.end(), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def drawn_anew() -> Generator[Callable[[RenderableType], None]]:
    """What shows something in the place of what it has shown before; where there is no terminal, below it."""
    if not out.is_terminal:
        yield out.print
        return
    with Live(console=out, auto_refresh=False) as live:
        yield lambda shown: live.update(shown, refresh=True)


def sparkline(values: Sequence[float], width: int, ascii_only: bool = False) -> str:
    """The last values as marks of eight heights, from nothing to the highest of them."""
    last = list(values)[-width:]
    most = max(last, default=0.0)
    marks = ASCII_MARKS if ascii_only else MARKS
    return "".join(marks[round(value / most * (len(marks) - 1)) if most else 0] for value in last)
