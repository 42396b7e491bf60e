"""`doctor --collect`: one archive with what somebody needs who is to help, and no secret in it.

Each part is collected by itself: where one cannot be had, the archive says why and has the others.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import platform
import re
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ...protocol.errors import LocalError
from ...protocol.status.cluster import ClusterStatus
from ..errors import MantaError
from ..sync.sync import Connection

LOG_BYTES = 1 << 20
"""The last bytes of each log."""
EVENTS = 1000
"""The last rows of the event table."""
HIDDEN = "(hidden)"
SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.I)
OURS = re.compile(r"^(MANTA|RAY_|PYTHON|UV_|JAVA_HOME$)")
IN_URL = re.compile(r"(?<=://)[^/\s@\"']+:[^/\s@\"']+(?=@)")
"""User and password of an address, such as a database's."""

Part = tuple[str, Callable[[], bytes | str]]
"""Name of a file in the archive, and what makes it."""


class Archive:
    """A compressed archive that is being written.

    Args:
        path: of the file; it must not be there.
        secrets: texts that are in no file of it.

    Raises:
        LocalError: there is such a file already, or it cannot be written.
    """

    def __init__(self, path: Path, secrets: Iterable[str]) -> None:
        self._root = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
        known = {one for one in secrets if one}
        known |= {json.dumps(one)[1:-1] for one in known}  # as a log in JSON has it
        self._secrets = sorted(known, key=len, reverse=True)
        try:
            self._file = path.open("xb")
        except OSError as error:
            raise LocalError(f"{path} cannot be written ({error.strerror}): name another file") from None
        self._tar = tarfile.open(fileobj=self._file, mode="w:gz")  # noqa: SIM115 - closed with this
        self._missing: list[str] = []

    def add(self, name: str, make: Callable[[], bytes | str]) -> bool:
        """Add a file, or note why it cannot be had; whether it is in."""
        try:
            made = make()
        except (MantaError, LocalError, OSError, ValueError, ImportError) as error:
            self._missing.append(f"{name}: {error or type(error).__name__}")
            return False
        self._put(name, made if isinstance(made, str) else made.decode("utf-8", "replace"))
        return True

    def close(self) -> list[str]:
        """Finish it; returns what is not in it, and why."""
        self._put("missing.txt", "".join(f"{line}\n" for line in self._missing) or "nothing\n")
        self._tar.close()
        self._file.close()
        return self._missing

    def _put(self, name: str, text: str) -> None:
        data = hidden(text, self._secrets).encode("utf-8", "replace")
        info = tarfile.TarInfo(f"{self._root}/{name}")
        info.size, info.mtime = len(data), int(time.time())
        self._tar.addfile(info, io.BytesIO(data))


def hidden(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, and without passwords in addresses."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return IN_URL.sub(HIDDEN, text)


def versions() -> str:
    """What runs here."""
    found = {name: importlib.metadata.version(name) for name in sorted(_installed())}
    return _json({"python": platform.python_version(), "platform": platform.platform(), "packages": found})


def _installed() -> set[str]:
    return {one.metadata["Name"] for one in importlib.metadata.distributions() if one.metadata["Name"]}


def settings(environment: Mapping[str, str], remembered: Mapping[str, Any]) -> str:
    """The environment's variables that matter here, and what is remembered of a cluster; values of secrets hidden."""
    ours = {name: value for name, value in sorted(environment.items()) if OURS.match(name)}
    shown = {name: HIDDEN if SECRET.search(name) else value for name, value in ours.items()}
    kept = {name: HIDDEN if SECRET.search(name) else value for name, value in remembered.items()}
    return _json({"environment": shown, "remembered": kept})


def secrets_of(environment: Mapping[str, str], token: str) -> list[str]:
    """The secrets that are known here: the cluster's token, Ray's, and those of the environment."""
    named = [value for name, value in environment.items() if SECRET.search(name) and len(value) >= 6]
    path = Path(environment.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    try:
        named.append(path.read_text("utf-8").strip())
    except (OSError, ValueError):
        pass
    return [*named, token]


def logs(status: ClusterStatus, folders: Iterable[Path]) -> Iterator[Part]:
    """The ends of the logs of the cluster's processes, as far as they are on this host, and of Ray's own.

    Args:
        folders: of Ray's sessions.
    """
    pids = {actor.pid: actor.name for actor in status.actors if actor.pid}
    if status.supervisor.pid:
        pids[status.supervisor.pid] = status.supervisor.name
    for folder in folders:
        for path in sorted(folder.glob("*")):
            match = re.search(r"-(\d+)\.(out|err|log)$", path.name)
            if match is not None and int(match[1]) in pids:
                yield f"logs/{pids[int(match[1])]}-{match[1]}.{match[2]}", _end_of(path)
            elif re.fullmatch(r"(raylet|gcs_server|monitor|dashboard)\.(out|err|log)", path.name):
                yield f"logs/ray/{path.name}", _end_of(path)


def _end_of(path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            return file.read()

    return read


def session_folders(session: str, root: Path) -> list[Path]:
    """Where a Ray session has its logs: that one's, or the latest one's where none is known."""
    folder = root / (session or "session_latest") / "logs"
    return [folder] if folder.is_dir() else []


def lines_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as JSON, a line each."""
    return "".join(json.dumps(row, default=str) + "\n" for row in rows)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, default=str) + "\n"


class Sources:
    """Where parts come from: each is asked once at most, by the part that needs it.

    Args:
        status: of the cluster. connection: to a broker; it is closed by who asked. events: the last rows, as text.
        remembered: what is written down of the cluster that was started here.
    """

    def __init__(
        self, status: Callable[[], ClusterStatus], connection: Callable[[], Connection], events: Callable[[], str],
        remembered: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self.status = cache(status)
        self.connection = connection
        self.events = events
        self.remembered = remembered


def collect(path: Path, sources: Sources, findings: str, token: str, environment: Mapping[str, str]) -> list[str]:
    """Write the archive.

    Args:
        findings: what `doctor` has found, as JSON.
        token: the cluster's, which is hidden.

    Returns:
        What is not in it, and why.

    Raises:
        LocalError: it cannot be written.
    """
    archive = Archive(path, secrets_of(environment, token))
    archive.add("doctor.json", lambda: findings)
    archive.add("versions.json", versions)
    archive.add("settings.json", lambda: settings(environment, sources.remembered))
    archive.add("events.jsonl", sources.events)
    asked: dict[str, Callable[[Connection], Any]] = {
        "statistics.json": lambda one: one.statistics(),
        "definitions.json": lambda one: one.definitions(),
    }
    for name, ask in asked.items():
        archive.add(name, lambda ask=ask: _json(_answer(sources.connection, ask)))
    if archive.add("status.json", lambda: _json(sources.status().plain())):
        root = Path(environment.get("RAY_TMPDIR") or "/tmp/ray")
        for name, make in logs(sources.status(), session_folders(sources.remembered.get("session") or "", root)):
            archive.add(name, make)
    return archive.close()


def _answer(connect: Callable[[], Connection], ask: Callable[[Connection], Any]) -> Any:
    with connect() as connection:
        return ask(connection)
