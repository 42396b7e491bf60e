"""A cluster over several hosts that can be cut off, killed and paused, clients that go on meanwhile, and their account.

    with Hosts() as hosts:
        hosts.start(3)                       # three hosts, a Ray node and a broker on each
        hosts.load()                         # clients, outside the hosts, that write down all they do
        hosts.cut("h1"); ...; hosts.heal("h1")
        hosts.until(lambda s: s["healthy"], 60, "healthy again")
        hosts.account()                      # every completed send was received: once, or again and flagged

The first host has Ray's control store and is where `mantamq up` was said. This process is on the network, too, and is
never cut off; it never joins Ray: what it knows of the cluster the command line says, on one of the hosts.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

from mantamq.actors.ray_control.placement import BROKER_RESOURCE
from mantamq.client import Connection, MantaError, connect

from tests.chaos import history
from tests.chaos.crowd import ROOT, Crowd
from tests.chaos.journal import DEAD, Journal, read_lines
from tests.chaos.load import PATIENCE_S, GivenUp, Task, drain

from .network import Network

GCS_PORT = 6379
STORE_BYTES = 80 * 1024 * 1024
RAY_S = 90.0
UP_S = 120.0
SAY_S = 60.0
BEGIN_S = 30.0
DRAIN_S = 60.0
LOOK_S = 0.5
Status = dict[str, Any]


class Hosts:
    """Attributes:
    network: cuts and kills.
    addresses: broker -> client address, as last heard.
    started_with: what `mantamq up` warned of.
    """

    def __init__(self) -> None:
        self.network = Network()
        self.addresses: dict[str, str] = {}
        self.started_with = ""
        # A short path: Ray makes sockets below it, and their names have a limit.
        self.folder = Path(tempfile.mkdtemp(prefix="mh", dir="/tmp"))
        self._crowd: Crowd | None = None
        self._queues: list[str] = []
        self._round = 0
        self._bare_head = False

    # ---- the hosts

    @property
    def names(self) -> list[str]:
        return list(self.network.hosts)

    def start(
        self, count: int, brokers: int | None = None, options: tuple[str, ...] = (), bare_head: bool = False
    ) -> None:
        """Make hosts, a Ray node on each, and a cluster over them.

        Args:
            brokers: how many; None for one on each host.
            options: further words for `mantamq up`.
            bare_head: the first host has Ray's control store and nothing of the cluster: the supervisor begins on the
                second.
        """
        self._bare_head = bare_head
        hosts = [self.network.add() for _ in range(count)]
        self.start_ray(*hosts)
        self.started_with = self.up(brokers or count, *options)

    def up(self, brokers: int, *options: str) -> str:
        """`mantamq up` on the first host; returns what it warns of."""
        done = self.mantamq(
            "h1", "up", "--address", self.ray_address, "--brokers", str(brokers), "--events", "off", "--memory",
            "--spares", "1", *options, "--json", timeout_s=UP_S,
        )  # fmt: skip
        assert done.returncode == 0, f"the cluster did not start: {done.stdout}{done.stderr}"
        self.addresses = json.loads(done.stdout)["members"]
        for host in self.names[1:]:
            # A user of another host has said where the cluster is, too.
            home = self.home(host)
            home.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.home("h1") / "state.json", home / "state.json")
        return "\n".join(json.loads(done.stdout)["warnings"])

    @property
    def ray_address(self) -> str:
        return f"{self.network.address('h1')}:{GCS_PORT}"

    def start_ray(self, *hosts: str) -> None:
        """`ray start` on each host, the first host's first: it is the head."""
        if "h1" in hosts:
            self._started("h1", self._ray("h1", "--head", f"--port={GCS_PORT}", "--include-dashboard=false"))
        others = {host: self._ray(host, f"--address={self.ray_address}") for host in hosts if host != "h1"}
        for host, process in others.items():
            self._started(host, process)

    def _ray(self, host: str, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *words]
        command += [f"--node-ip-address={self.network.address(host)}", f"--temp-dir={self.folder / host}"]
        command += ["--num-cpus=2", f"--object-store-memory={STORE_BYTES}", "--disable-usage-stats"]
        if self._bare_head and host != "h1":
            command.append(f"--resources={json.dumps({BROKER_RESOURCE: 1})}")
        output = (self.folder / f"{host}.ray").open("w+")
        return subprocess.Popen(
            [*self.network.inside(host), *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env=self._environment(host), cwd=ROOT, text=True,
        )  # fmt: skip

    def _started(self, host: str, process: subprocess.Popen[str]) -> None:
        code = process.wait(RAY_S)
        assert code == 0, f"Ray did not start on {host}: {(self.folder / f'{host}.ray').read_text()[-2000:]}"

    def home(self, host: str) -> Path:
        return self.folder / f"home-{host}"

    def _environment(self, host: str) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "MANTAMQ_"))},
            "MANTAMQ_HOME": str(self.home(host)),
            "RAY_AUTH_MODE": "disabled",
            "RAY_worker_niceness": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "COLUMNS": "200",
        }

    def cut(self, host: str, to: tuple[str, ...] = (), way: str = "both") -> None:
        """See `Network.cut`."""
        self.network.cut(host, to, way)

    def heal(self, host: str) -> None:
        self.network.heal(host)

    def kill(self, host: str) -> None:
        """Everything that runs on it ends at once, and nobody hears of it."""
        self.network.kill(host)

    def revive(self, host: str) -> None:
        """A killed host is there again: its network, and a Ray node (not the head's: there is no cluster without)."""
        self.network.heal(host)
        shutil.rmtree(self.folder / host, ignore_errors=True)
        self.start_ray(host)

    def pause(self, host: str) -> None:
        self.network.signal(host, signal.SIGSTOP)

    def resume(self, host: str) -> None:
        self.network.signal(host, signal.SIGCONT)

    def signal(self, pid: int, which: str) -> None:
        """Send a signal, such as "STOP", to one process on whatever host."""
        os.kill(pid, signal.Signals[f"SIG{which}"])

    def is_on(self, pid: int, host: str) -> bool:
        """Whether a process runs, and on this host."""
        return pid in self.network.pids(host)

    def host_of(self, address: str) -> str:
        """The host with this address, with or without a port; "" for none of ours."""
        wanted = address.split(":")[0]
        return next((host for host in self.names if self.network.address(host) == wanted), "")

    # ---- what the cluster says

    def run(self, host: str, *words: str, timeout_s: float = SAY_S) -> subprocess.CompletedProcess[str]:
        """Run a command on a host."""
        return subprocess.run(
            [*self.network.inside(host), *words], capture_output=True, text=True, timeout=timeout_s, check=False,
            env=self._environment(host), cwd=ROOT, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def mantamq(self, host: str, *words: str, timeout_s: float = SAY_S) -> subprocess.CompletedProcess[str]:
        """A command of the product, said on this host."""
        return self.run(host, sys.executable, "-m", "mantamq.client.cli.app", *words, timeout_s=timeout_s)

    def status(self, host: str = "h1") -> Status:
        """`mantamq status --json` on this host; with "problem" only when it fails."""
        done = self.mantamq(host, "status", "--json")
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"problem": done.stdout + done.stderr, "healthy": False, "unhealthy": [], "actors": []}

    def until(self, wanted: Callable[[Status], Any], limit_s: float, what: str, host: str = "h1") -> Status:
        """Ask for the status until it is as wanted; returns it."""
        until = time.monotonic() + limit_s
        while True:
            status = self.status(host)
            if wanted(status):
                if members := status.get("members"):
                    self._heard(members)
                return status
            if time.monotonic() > until:
                told = {k: status.get(k) for k in ("problem", "stage", "unhealthy", "warnings", "members")}
                told["errors"] = {a["name"]: a["error"] for a in status["actors"] if a.get("error")}
                raise AssertionError(f"not {what} within {limit_s:g} s: {json.dumps(told, indent=1)}")
            time.sleep(LOOK_S)

    def until_healthy(self, limit_s: float = 60.0, host: str = "h1") -> Status:
        return self.until(lambda status: status.get("healthy"), limit_s, "healthy", host)

    def where(self, status: Status) -> dict[str, str]:
        """Actor -> its host."""
        return {actor["name"]: self.host_of(actor["host"]) for actor in status["actors"]}

    def connect(self) -> Connection:
        return connect(list(self.addresses.values()), timeout=5.0)

    # ---- clients, and their account

    def load(self, senders: int = 2, receivers: int = 2, rate: float = 100.0, on: tuple[str, ...] = ()) -> None:
        """Start clients that send, receive and settle until `account`; returns when each has begun.

        Args:
            rate: messages a second, all senders together.
            on: hosts on which the clients run, by turns; () for outside, where nothing cuts them off.
        """
        assert self._crowd is None, "the last load has not been accounted for"
        self._round += 1
        folder = self._journals()
        folder.mkdir()
        self._queues = [f"story-{self._round}-{index}" for index in range(2)]
        with self.connect() as connection:
            for queue in self._queues:
                connection.declare_queue(queue + DEAD)
                connection.declare_exchange(queue + DEAD, "fanout")
                connection.bind(queue + DEAD, queue + DEAD)
                connection.declare_queue(queue, alternate=queue + DEAD)
        self._heard(self.addresses)
        self._crowd = Crowd(folder)
        tasks = [
            Task(
                f"{role[0]}{index + 1}", role, self._queues, str(folder / f"{role[0]}{index + 1}.jsonl"),
                str(self.folder / "addresses.json"), index, 100 * self._round + 10 * (role == "sender") + index,
                rate / senders,
            )
            for role, count in (("sender", senders), ("receiver", receivers))
            for index in range(count)
        ]  # fmt: skip
        for index, task in enumerate(tasks):
            self._crowd.start(task, self.network.inside(on[index % len(on)]) if on else ())
        until = time.monotonic() + BEGIN_S
        while not all(_has_begun(Path(task.journal)) for task in tasks):
            assert time.monotonic() < until and not self._crowd.failed(), f"clients: {self._crowd.failed()}"
            time.sleep(0.1)

    def account(self, least: int = 100) -> dict[str, int]:
        """End the clients, take what is left in the queues, and judge: every completed send was received, once or again
        and flagged. Returns how often what was checked.

        Args:
            least: fewer completed transfers would prove nothing.
        """
        crowd, folder = self._crowd, self._journals()
        assert crowd is not None, "there is no load"
        wrong = crowd.finish("sender", 3 * PATIENCE_S)
        crowd.tell("receiver", "drain")
        wrong += crowd.finish("receiver", 3 * PATIENCE_S)
        wrong += crowd.failed()
        self._crowd = None
        journal = Journal(folder / "drain.jsonl", "drain")
        until = time.monotonic() + DRAIN_S
        while True:
            try:
                with self.connect() as connection:
                    left = drain(connection, journal, self._queues, until)
                break
            except (MantaError, GivenUp, OSError) as error:
                assert time.monotonic() < until, f"what is left cannot be taken: {error}"
        journal.write("done")
        journal.close()
        wrong += [f"{queue} was not seen empty" for queue in left]
        verdict = history.check_files(folder.glob("*.jsonl"), minimum={"transfers completed": least})
        wrong += map(str, verdict.violations)
        assert not wrong, "\n".join(wrong)
        return dict(verdict.counts)

    def completed(self) -> int:
        """Transfers completed so far, as the clients have written down."""
        count = 0
        for path in self._journals().glob("s*.jsonl"):
            for line in read_lines(path):
                if line["op"] == "send" and line["outcome"] == "completed":
                    count += line["last"] - line["first"] + 1
        return count

    def until_served(self, limit_s: float = 20.0, more: int = 50) -> float:
        """Wait until `more` more transfers are completed; returns how long it took, in seconds."""
        began, before = time.monotonic(), self.completed()
        while self.completed() < before + more:
            assert time.monotonic() - began < limit_s, f"clients were not served for {limit_s:g} s"
            time.sleep(0.1)
        return time.monotonic() - began

    def serve_for(self, seconds: float, gap_s: float = 8.0) -> None:
        """Let `seconds` pass, in which clients are served all along: never silent for longer than `gap_s`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.until_served(gap_s)

    def longest_silence(self) -> float:
        """The longest time between two completed transfers so far, in seconds."""
        times = sorted(
            line["t"]
            for path in self._journals().glob("s*.jsonl")
            for line in read_lines(path)
            if line["op"] == "send" and line["outcome"] == "completed"
        )
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)

    def _journals(self) -> Path:
        return self.folder / f"round-{self._round}"

    def _heard(self, addresses: dict[str, str]) -> None:
        self.addresses = dict(addresses)
        new = self.folder / "addresses.new"
        new.write_text(json.dumps(self.addresses))
        new.rename(self.folder / "addresses.json")

    # ---- the end

    def close(self) -> None:
        """Everything ends, whatever happened; MANTAMQ_KEEP=folder keeps logs and journals there."""
        with contextlib.suppress(Exception):
            if self._crowd is not None:
                self._crowd.kill()
        self.network.close()
        if keep := os.environ.get("MANTAMQ_KEEP"):
            shutil.copytree(
                self.folder, keep, dirs_exist_ok=True, ignore=_unreadable, symlinks=True, ignore_dangling_symlinks=True
            )
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _unreadable(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "sockets"]


def _has_begun(journal: Path) -> bool:
    return journal.exists() and any(line["op"] in ("send", "deliver") for line in read_lines(journal))
