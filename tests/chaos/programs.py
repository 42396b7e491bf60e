"""Programs that send, are killed, and begin anew: in each *life* a process of its own, with a journal of its own.

To a queue of `kinds.BY_NAME` a program sends under its name, and a new life goes on where the queue says that the former
one was, or sends some again before that, under their numbers. At times the new one begins while the former one is alive
and sends: then that hears that it is none any more. To a queue of `kinds.BY_ID` all programs send the same messages, and
each of them goes on where it believes that it was.

What a message is follows from its number alone, so it is the same in each life, and whoever sends it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from mantamq.client import Connection, Message
from mantamq.client.errors import LinkClosed

from . import body, kinds
from .journal import SENT, UNKNOWN
from .load import ANSWER_S, PATIENCE_S, Burst, Sending, SendingLink, Task
from .traces import part_of_its_trace

LIFE_S = (1.0, 8.0)
KILLED = 0.7
"""How likely a life is killed before the next one begins."""
AGAIN = 30
"""So many at most that were complete are sent again."""
OVER = "another sender of the name"
LEFT_BEHIND_S = 2 * PATIENCE_S


class Program:
    """One life after another, until it is told to stop: then the last one ends by itself."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._random = Random(task.seed)
        self._stopping = threading.Event()
        self._former: list[subprocess.Popen[bytes]] = []

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        life = 0
        while True:
            life += 1
            process, journal = self._begin(life)
            if life == 1 or self._random.random() < 0.8:
                self._wait_until_it_sends(journal)
            self._stopping.wait(self._random.uniform(*LIFE_S))
            if self._stopping.is_set():
                break
            if self._random.random() < KILLED:
                process.kill()
                process.wait()
            else:
                self._former.append(process)
        self._end([*self._former, process])

    def _listen(self) -> None:
        for _ in sys.stdin:
            pass
        self._stopping.set()

    def _wait_until_it_sends(self, journal: Path) -> None:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and not self._stopping.is_set():
            if journal.exists() and b'"send"' in journal.read_bytes():
                return
            time.sleep(0.1)

    def _begin(self, life: int) -> tuple[subprocess.Popen[bytes], Path]:
        """A life's process, and its journal."""
        task = self._task
        journal = Path(task.journal)
        if life > 1:
            journal = journal.with_name(f"{task.client}.{life:03}.jsonl")
        of_life = replace(
            task, role="life", client=f"{task.client}.{life}", journal=str(journal), life=life,
            seed=self._random.randrange(1 << 32), prefer=task.prefer + life,
        )  # fmt: skip
        command = [sys.executable, "-m", "tests.chaos.client", json.dumps(asdict(of_life))]
        return subprocess.Popen(command, stdin=subprocess.PIPE), journal

    def _end(self, processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            if process.stdin is not None:
                process.stdin.close()
        until = time.monotonic() + LEFT_BEHIND_S
        for process in processes:
            try:
                code = process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                code = "none"
            if code:
                sys.exit(f"a life ended with code {code}")


class Life(Sending):
    """One life of a program."""

    fleeting = 0.0

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self._queue = task.queues[0]
        kind = kinds.of(self._queue)
        self._by_name = kind is not None and kind.program == kinds.BY_NAME
        self._had = 0
        self._behind = Path(task.journal).with_name(f"{task.client.partition('.')[0]}.next")

    def work(self, connection: Connection) -> None:
        links: list[SendingLink] = []
        broken = True
        try:
            links.append(self._begun(connection))
            while not self.stopping.is_set():
                self._turn(links)
                if not self._by_name:
                    self._behind.write_text(str(self._numbers[self._queue]))
                if not self._by_name and self.random.random() < 0.2:
                    self._go_back()
            broken = False
        except LinkClosed as error:
            if OVER in str(error):
                self.stopping.set()
            raise
        finally:
            self._conclude(UNKNOWN)
            for link in links:
                self.journal.write("close", link=link.id, broken=broken)

    def _begun(self, connection: Connection) -> SendingLink:
        """A sender, at the number where it goes on: some that were complete, perhaps, are sent again."""
        began = time.monotonic()
        self._perhaps_traced(connection)
        more: dict[str, Any] = {}
        if self._by_name:
            sender = connection.session().sender(self._queue, self._capacity(), name=self.task.producer)
            behind = sender.last_completed
            more = {"asked": round(began, 6), "had": behind}
        else:
            sender = connection.session().sender(self._queue, self._capacity())
            behind = int(self._behind.read_text() or 0) if self._behind.exists() else 0
        self._numbers[self._queue] = self._had = behind
        self._go_back()
        own = list(range(self._numbers[self._queue] + 1)) if self._by_name else [0]
        link = SendingLink(self.name_link(), self._queue, sender, own)
        self.journal.write(
            "open", link=link.id, queue=self._queue, role="sender", broker=connection.broker,
            producer=self.task.producer, **more,
        )  # fmt: skip
        return link

    def _go_back(self) -> None:
        if self.random.random() < 0.6:
            self._numbers[self._queue] -= self.random.randrange(min(AGAIN, self._numbers[self._queue]) + 1)

    def _send(self, link: SendingLink, count: int) -> None:
        first = self._numbers[self._queue] + 1
        last = self._numbers[self._queue] = first + count - 1
        self.journal.write("send", link=link.id, first=first, last=last, outcome=SENT)
        self._open.append(Burst(link, first, last))
        for number in range(first, last + 1):
            text = body.write(self._queue, self.task.producer, number, bytes(number * 7919 % 1200))
            message = Message(text, **body.options(number, self._queue))
            # Without a number it would be the one behind all that the queue has had, also where that is sent again.
            if self._by_name and (number <= self._had or self.random.random() < 0.5):
                with part_of_its_trace(number):
                    self._insist(link, partial(link.sender.send, message, timeout=ANSWER_S, number=number))
                link.own.append(number)
            else:
                self._put(link, message, number)
