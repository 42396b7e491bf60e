"""The status, asked for by a process of its own: one that does not answer holds nobody up, and another takes its place."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from made_up_status import actors, report
from mantamq.client.cli.asking import StatusAsker, answer
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.cluster import ClusterStatus

LONG_S = 60.0
STATUS = report(actors())


def that(script: str, *words: str) -> list[str]:
    """A command that answers as the script says, with `line` for an answer."""
    line = json.dumps({"status": STATUS.plain()}, default=str)
    return [sys.executable, "-c", f"import os, sys, time\nline = {line!r}\n{script}", *words]


def until(done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LONG_S
    while not done():
        assert time.monotonic() < end_s
        time.sleep(0.01)


EACH = "for _ in sys.stdin: print(line, flush=True)"


def test_a_status_comes_back_as_it_was():
    told = json.loads(answer(lambda: STATUS))
    assert ClusterStatus.read(told["status"]) == STATUS


def test_a_trouble_comes_back_in_its_words():
    def ask() -> ClusterStatus:
        raise LocalError("there is no Ray on this machine")

    line = answer(ask)
    with closing(StatusAsker("", "", "", that(f"for _ in sys.stdin: print({line!r}, flush=True)"))) as status:
        for _ in range(2):
            with pytest.raises(LocalError, match=r"^there is no Ray on this machine$"):
                status()


def test_one_process_answers_again_and_again_and_is_ended():
    status = StatusAsker("", "", "", that(EACH))
    assert status() == STATUS
    process = status._process
    assert process is not None
    assert status() == STATUS
    assert status._process is process
    status.close()
    assert not psutil.pid_exists(process.pid)
    status.close()


def test_what_does_not_answer_is_ended_and_another_asked(tmp_path: Path):
    """As one whose Ray has gone: it answers once, and then waits for ever."""
    gone = tmp_path / "gone"
    script = """
for at, _ in enumerate(sys.stdin):
    while os.path.exists(sys.argv[1]) and at:
        time.sleep(0.1)
    print(line, flush=True)
"""
    with closing(StatusAsker("", "", "", that(script, str(gone)), (LONG_S, 0.6, 0.1))) as status:
        assert status() == STATUS
        first = status._process
        assert first is not None
        gone.touch()
        with pytest.raises(LocalError, match="Ray has not answered for 0 s, or has gone; it is asked again"):
            status()
        assert status._process is first  # it may be late
        until(lambda: _given_up(status))
        assert not psutil.pid_exists(first.pid)
        assert status() == STATUS


def _given_up(status: StatusAsker) -> bool:
    with pytest.raises(LocalError, match="not answered"):
        status()
    return status._process is None


def test_an_answer_that_is_late_is_the_next_questions(tmp_path: Path):
    late = tmp_path / "late"
    script = """
for at, _ in enumerate(sys.stdin):
    while at and not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    print(line, flush=True)
"""
    with closing(StatusAsker("", "", "", that(script, str(late)), (LONG_S, LONG_S, 0.05))) as status:
        status()
        process = status._process
        with pytest.raises(LocalError, match="not answered"):
            status()
        late.touch()

        def there() -> bool:
            try:
                return status() == STATUS
            except LocalError:
                return False

        until(there)
        assert status._process is process


def test_one_that_has_been_ended_by_ray_is_begun_anew(tmp_path: Path):
    script = (
        """
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    print(line, flush=True)
    sys.stdin.readline()
    sys.stdin.readline()
    os._exit(1)
"""
        + EACH
    )
    with closing(StatusAsker("", "", "", that(script, str(tmp_path / "once")))) as status:
        status()
        with pytest.raises(LocalError, match="or has gone"):
            status()
        assert status() == STATUS


def test_a_token_is_in_no_command_line():
    script = "for _ in sys.stdin: print(line if os.environ['MANTAMQ_TOKEN'] == 'secret' else '{}', flush=True)"
    with closing(StatusAsker("", "", "secret", that(script))) as status:
        status()
    assert "secret" not in " ".join(StatusAsker("", "", "secret")._words)


def test_the_process_answers_what_it_sees_and_ends_with_the_questions():
    """What Ray prints is no answer."""
    assert StatusAsker("host:1", "mine", "")._words[1:] == ["-m", "mantamq.client.cli.asking", "host:1", "mine"]
    script = """
from mantamq.client.cli import asking
from mantamq.protocol.errors import LocalError
def seen(*words):
    print("noise", flush=True)
    raise LocalError(" ".join(words))
asking.seen = seen
asking.main("host:1", "mine")
"""
    with closing(StatusAsker("", "", "secret", [sys.executable, "-c", script])) as status:
        for _ in range(2):
            with pytest.raises(LocalError, match=r"^host:1 mine secret$"):
                status()
        process = status._process
        assert process is not None and process.stdin is not None
        process.stdin.close()
        assert process.wait(LONG_S) == 0
