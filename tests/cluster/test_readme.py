"""The README's code runs: each Python block by itself, the shell's commands one after another on one cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quick_java import OPTIONS
from tests.readme import blocks, commands, text

BLOCK_S = 90
COMMAND_S = 180
NOT_RUN = {
    "make demo": "it has a test of its own, tests/unit/client/demo/test_demo.py, and takes minutes",
    "make test": "these are its tests",
    "pip install": "the tests run in what was installed",
    "pip wheel": "builds, and starts nothing",
}
"""How a command begins that is not run here -> why."""


def environment(home: Path) -> dict[str, str]:
    bin = Path(sys.executable).parent
    gone = ("MANTAMQ_TOKEN", "MANTAMQ_EVENTS", "RAY_ADDRESS")
    kept = OPTIONS | {name: value for name, value in os.environ.items() if name not in gone}
    return kept | {
        "MANTAMQ_HOME": str(home / "home"),
        "COLUMNS": "80",
        "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
    }


@pytest.mark.timeout(BLOCK_S + 30)
@pytest.mark.parametrize("number", range(len(blocks(text(), "python"))))
def test_a_python_block_runs(number: int, tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(blocks(text(), "python")[number])
    ran = subprocess.run(
        [sys.executable, "block.py"], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True,
        timeout=BLOCK_S, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.timeout(600)
def test_the_shell_blocks_run(tmp_path: Path) -> None:
    found = [command for block in blocks(text(), "") for command in commands(block)]
    for beginning in NOT_RUN:
        assert any(command.startswith(beginning) for command in found), f"the README has no {beginning!r} any more"
    to_run = [command for command in found if not command.startswith(tuple(NOT_RUN))]
    assert to_run[0].startswith("mantamq up") and to_run[-1].startswith("mantamq down") and len(to_run) > 10
    (tmp_path / "lines").write_text("one\ntwo\nthree\n")
    shown: dict[str, str] = {}
    try:
        for command in to_run:
            ran = subprocess.run(
                command, shell=True, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True,
                timeout=COMMAND_S, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            assert ran.returncode == 0, f"{command}: exit code {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
            assert "Traceback" not in ran.stderr, f"{command}: {ran.stderr}"
            shown[command] = ran.stdout
    finally:
        subprocess.run(
            ["mantamq", "down", "--yes"], env=environment(tmp_path), capture_output=True, timeout=COMMAND_S, check=False
        )
    assert shown["mantamq receive orders"] == "one\ntwo\nthree\n"
    assert (tmp_path / "report.html").stat().st_size > 1000
    assert (tmp_path / "events.parquet").stat().st_size > 1000
