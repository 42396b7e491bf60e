"""Ctrl-C, or SIGTERM to its first process alone, ends `mantamq perftest` as any program: one line, no child's traceback, no
queue left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from fake_broker import FakeBroker
from mantamq.client import connect


@pytest.mark.timeout(90)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_its_end_is_one_line_and_nothing_stays(number: signal.Signals, code: int) -> None:
    with FakeBroker() as broker:
        command = [sys.executable, "-m", "mantamq", "perftest", "--count", "100000000", "-b", broker.address]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        try:
            while "msg/s" not in process.stdout.readline():  # they are at work
                assert process.poll() is None
            if number == signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal does: to all of them
            else:
                process.send_signal(number)
            _, errors = process.communicate(timeout=30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == code
        assert errors == "mantamq: interrupted\n"
        with connect(broker.address) as connection:
            assert connection.queues() == []
        until = time.monotonic() + 10
        while True:  # nobody of its group is left
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                break
            assert time.monotonic() < until, "a publisher or subscriber goes on"
            time.sleep(0.05)
