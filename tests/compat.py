"""`make compat`: the tests that touch Ray, against other versions of it. Each version gets an environment of its own,
with everything else as `requirements.lock` has it.

python -m tests.compat                    # the oldest and the newest that pyproject.toml allows
python -m tests.compat 2.57.1 2.58.0      # these; a version beside the pin is tried before the pin is widened
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".compat"
TESTS = (
    # What is used of Ray beside its public interface: the control store's own calls, the table of programs.
    "tests/unit/actors/ray_control/test_door.py", "tests/unit/actors/ray_control/test_bound.py",
    "tests/unit/actors/ray_control/test_placement.py", "tests/unit/client/cli/test_cli.py",
    # How it starts, is found, and ends; whose death is noticed; where actors go.
    "tests/cluster/test_start_and_stop.py", "tests/cluster/test_up_and_down.py", "tests/cluster/test_embedded.py",
    "tests/cluster/test_queue_in_ray.py", "tests/cluster/test_several_nodes.py", "tests/cluster/test_membership.py",
    "tests/cluster/test_client_on_a_cluster.py", "tests/cluster/test_client_failover.py",
)  # fmt: skip


def pin() -> str:
    """What pyproject.toml says of Ray's version: ">=2.57,<2.61"."""
    wanted: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return next(one.partition("]")[2] for one in wanted if one.startswith("ray["))


def oldest(pin: str) -> str:
    """The release at the lower bound of a pin."""
    found = re.search(r">=\s*([\d.]+)", pin)
    assert found is not None, f"the pin {pin!r} has no lower bound"
    return found.group(1)


def environment(version: str) -> Path:
    """The Python of an environment with that Ray; "newest": what the package index has for the pin.

    Raises:
        subprocess.CalledProcessError: there is no such release, or no package index in reach.
    """
    python = HOME / version / "bin" / "python"
    lock = (ROOT / "requirements.lock").read_text()
    others = [line for line in lock.splitlines() if not re.match(r"ray(dp)?\W|pyspark\W", line)]
    ray = f"ray[default]{pin()}" if version == "newest" else f"ray[default]=={version}"
    stamp = HOME / version / "stamp"
    made_from = "\n".join([*others, ray, (ROOT / "pyproject.toml").read_text()])
    if version == "newest" or not stamp.exists() or stamp.read_text() != made_from:
        subprocess.run([sys.executable, "-m", "venv", HOME / version], check=True)
        wanted = HOME / version / "requirements.txt"
        wanted.write_text("\n".join([*others, ray]) + "\n")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--upgrade", "--upgrade-strategy", "only-if-needed", "-r", wanted], check=True)
        subprocess.run([*pip, "--no-deps", "--editable", ROOT], check=True)
        stamp.write_text(made_from)
    return python


def installed(python: Path) -> str:
    """The version of Ray in an environment."""
    ask = "import importlib.metadata as m; print(m.version('ray'))"
    return subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat")
    parser.add_argument(
        "versions", nargs="*", default=[], help="releases of Ray; by default the pin's oldest and newest"
    )
    parser.add_argument("--tests", default=" ".join(TESTS), help="what pytest is called with")
    wanted = parser.parse_args()
    verdicts: list[tuple[str, str]] = []
    for version in wanted.versions or [oldest(pin()), "newest"]:
        try:
            python = environment(version)
        except subprocess.CalledProcessError:
            verdicts.append((version, "NOT TRIED: it could not be installed, see above"))
            continue
        there = installed(python)
        print(f"== Ray {there} ({version})" if version != there else f"== Ray {there}", flush=True)
        done = subprocess.run([python, "-m", "pytest", "-q", *wanted.tests.split()], cwd=ROOT, check=False)
        verdicts.append((there, "passed" if done.returncode == 0 else f"FAILED (pytest's exit code {done.returncode})"))
    print(f"\nthe pin is ray{pin()}")
    for version, verdict in verdicts:
        print(f"Ray {version:10} {verdict}")
    return int(any(verdict != "passed" for _, verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
