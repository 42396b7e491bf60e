"""The client processes of a round: started, told to go on or to end, and looked after."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from .load import Task

ROOT = Path(__file__).parents[2]


class Crowd:
    """Client processes by name. Their standard input is the leash: they end when it does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._roles: dict[str, str] = {}

    def start(self, task: Task, before: Sequence[str] = ()) -> None:
        """Start a client.

        Args:
            before: words before its command: what takes it to another host.
        """
        with (self._folder / f"{task.client}.err").open("wb") as errors:
            self._running[task.client] = subprocess.Popen(
                [*before, sys.executable, "-m", "tests.chaos.client", json.dumps(asdict(task))],
                stdin=subprocess.PIPE, stdout=errors, stderr=errors, cwd=ROOT,
            )  # fmt: skip
        self._roles[task.client] = task.role

    def tell(self, role: str, word: str) -> None:
        """Say a word to all of a role."""
        for process in self._of(role):
            if process.stdin is not None and process.poll() is None:
                process.stdin.write(word.encode() + b"\n")
                process.stdin.flush()

    def finish(self, role: str, limit_s: float) -> list[str]:
        """Tell all of a role to end, and wait; those that do not are killed, and named."""
        for process in self._of(role):
            if process.stdin is not None:
                process.stdin.close()
        until = time.monotonic() + limit_s
        stuck: list[str] = []
        for name, process in self._running.items():
            if self._roles[name] != role:
                continue
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                stuck.append(f"{name} did not end within {limit_s:g} s; {self._last_words(name)}")
        return stuck

    def failed(self) -> list[str]:
        """Clients that ended by an error of their own: a defect of the client library, or of the load."""
        return [
            f"{name} ended with code {process.returncode}; {self._last_words(name)}"
            for name, process in self._running.items()
            if process.poll() not in (None, 0, -9)
        ]

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()

    def _of(self, role: str) -> list[subprocess.Popen[bytes]]:
        return [process for name, process in self._running.items() if self._roles[name] == role]

    def _last_words(self, name: str) -> str:
        lines = (self._folder / f"{name}.err").read_text(errors="replace").splitlines()
        return f"it said last: {lines[-1] if lines else 'nothing'}"
