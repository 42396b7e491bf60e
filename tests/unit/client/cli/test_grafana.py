"""`mantamq grafana export`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mantamq.client.cli.app import app
from mantamq.protocol.errors import LocalError
from typer.testing import CliRunner


def exported(*arguments: str) -> dict[str, str]:
    ran = CliRunner().invoke(app, ["grafana", "export", *arguments, "--json"], catch_exceptions=False)
    assert ran.exit_code == 0
    return {Path(file).name: Path(file).read_text("utf-8") for file in json.loads(ran.output)["files"]}


def test_dashboards_are_written_to_a_directory_that_is_made(tmp_path: Path) -> None:
    files = exported(str(tmp_path / "a" / "b"))
    assert sorted(files) == sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
    assert all(json.loads(text)["panels"] for text in files.values())
    assert "ray_manta" not in "".join(files.values())


def test_with_ray_the_names_are_rays(tmp_path: Path) -> None:
    text = "".join(exported(str(tmp_path), "--ray").values())
    assert "ray_manta_queue_messages{" in text and "(manta_" not in text


def test_a_directory_that_cannot_be_written_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalError, match=r"dashboards cannot be written to .*file"):
        CliRunner().invoke(app, ["grafana", "export", str(tmp_path / "file")], catch_exceptions=False)
