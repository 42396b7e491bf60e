"""`ray_cluster.yaml` is what Ray's own schema allows, and starts what the README says. No Ray is imported."""

from __future__ import annotations

import copy
import json
import re
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
    (worker,) = types.values()
    assert worker["resources"]["manta_broker"] == 1
    assert worker["min_workers"] == worker["max_workers"] == config["max_workers"] == 3


def test_the_resource_is_the_one_placement_looks_for(config):
    (name,) = config["available_node_types"]["broker"]["resources"]
    assert f'BROKER_RESOURCE = "{name}"' in (ROOT / "actors" / "placement.py").read_text("utf-8")


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
    from mantamq.client import cli
    from typer.main import get_command

    advised = re.findall(r"mantamq (\w+)((?: --[\w-]+(?: \w+)?)*)'", (ROOT / "ray_cluster.yaml").read_text("utf-8"))
    assert [name for name, _ in advised] == ["up", "status"]
    commands: Any = get_command(cli.app)
    for name, options in advised:
        known = {option for parameter in commands.commands[name].params for option in parameter.opts}
        assert set(re.findall(r"--[\w-]+", options)) <= known
