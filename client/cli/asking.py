"""The status of a cluster, asked for again and again by a process of its own.

A process that has joined a Ray, and asks it when it has gone, waits, and after a minute Ray ends it. Here that is one
that nobody misses: it is ended where it does not answer, and the next question starts another, which joins the Ray that
is there by then.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ...protocol.errors import LocalError
from ...protocol.status.cluster import ClusterStatus
from ..errors import MantaError
from .console import leave_ray, need, seen

STARTS_S = 25.0
"""How long the first answer of a process may take: it starts, and joins Ray."""
ANSWER_S = 10.0
"""And any other: `seen` takes some 5 seconds at most where Ray answers."""
LOOK_S = 2.0
"""So long a question waits for an answer that is late; later ones wait for the same."""
LEAVES_S = 2.0
AWAY = "Ray has not answered for {:.0f} s, or has gone; it is asked again"


class StatusAsker:
    """Asks for the status of a cluster, as `console.seen`, and waits for no Ray that is not there any more.

    Args:
        address, namespace, token: as of `seen`.
        words: the command that answers, one line for each that it reads.
        limits_s: for a first answer, for any other, and for one question.
    """

    def __init__(
        self, address: str, namespace: str, token: str, words: Sequence[str] = (),
        limits_s: tuple[float, float, float] = (STARTS_S, ANSWER_S, LOOK_S),
    ) -> None:  # fmt: skip
        self._words = [*(words or (sys.executable, "-m", __name__, address, namespace))]
        self._environment = os.environ | ({"MANTAMQ_TOKEN": token} if token else {})
        self._starts_s, self._answer_s, self._look_s = limits_s
        self._process: subprocess.Popen[bytes] | None = None
        self._begun = False  # this process has answered once
        self._asked_s: float | None = None  # since when an answer is due
        self._said = b""

    def __call__(self) -> ClusterStatus:
        """The status.

        Raises:
            LocalError: there is none, nobody of it answers, or Ray does not in time.
        """
        process = self._process
        if process is None or process.poll() is not None:
            process = self._start()
        if self._asked_s is None:
            self._ask(process)
        answer = json.loads(self._answer(process))
        self._begun, self._asked_s, self._said = True, None, b""
        if "no status" in answer:
            raise LocalError(answer["no status"])
        return ClusterStatus.read(answer["status"])

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if self._asked_s is None:  # what waits for Ray does not read that it is to end
            with suppress(subprocess.TimeoutExpired):
                process.wait(LEAVES_S)
        process.kill()
        process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        need("", "ray")  # which the process would say to nobody
        self.close()
        self._begun, self._asked_s, self._said = False, None, b""
        self._process = subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            env=self._environment, start_new_session=True,
        )  # fmt: skip
        return self._process

    def _ask(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        self._asked_s = time.monotonic()
        with suppress(OSError):  # it has ended: that is seen where its answer is read
            process.stdin.write(b"\n")

    def _answer(self, process: subprocess.Popen[bytes]) -> bytes:
        """The line that is due. Raises LocalError: it has not come yet, or never will."""
        assert process.stdout is not None and self._asked_s is not None
        last_s = self._asked_s + (self._answer_s if self._begun else self._starts_s)
        until_s = min(last_s, time.monotonic() + self._look_s) if self._begun else last_s
        while not self._said.endswith(b"\n"):
            left_s = until_s - time.monotonic()
            heard = left_s > 0 and bool(select.select([process.stdout], [], [], left_s)[0])
            more = os.read(process.stdout.fileno(), 1 << 16) if heard else b""
            if not more:
                now_s, since_s = time.monotonic(), self._asked_s
                if heard or now_s >= last_s:  # it has ended, or it never answers
                    self.close()
                raise LocalError(AWAY.format(now_s - since_s))
            self._said += more
        return self._said


def answer(ask: Callable[[], ClusterStatus]) -> str:
    """The line that answers one question: the status, or the trouble with it."""
    try:
        return json.dumps({"status": ask().plain()}, default=str)
    except (MantaError, LocalError, OSError, RuntimeError) as error:
        return json.dumps({"no status": str(error) or type(error).__name__})


def main(address: str, namespace: str) -> None:
    """Answer a line for each that comes, until none comes any more. What Ray prints goes nowhere."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    token = os.environ.get("MANTAMQ_TOKEN", "")
    for _ in sys.stdin:
        print(answer(lambda: seen(address, namespace, token)), file=replies, flush=True)
    leave_ray()


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main(*sys.argv[1:])
