"""A wheel carries every folder that an editable install finds: `pyproject.toml` lists them one by one."""

from __future__ import annotations

import tomllib
from pathlib import Path

from .test_tidy import OURS, ROOT


def left_out(root: Path) -> list[str]:
    """The packages with modules in them that no wheel of the tree at `root` would have, dotted."""
    setuptools = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    folders = {
        f"mantamq.{'.'.join(file.parent.relative_to(root).parts)}" for top in OURS for file in modules(root / top)
    }
    folders.discard("mantamq.client.command")  # the namespace itself: `package-dir` says so
    return sorted(folders - set(setuptools["packages"]))


def modules(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*.py") if "__pycache__" not in file.parts]


def test_a_wheel_leaves_no_package_out():
    assert left_out(ROOT) == []


def test_a_room_that_is_left_out_is_found(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.setuptools]\npackages = ["mantamq.store"]\n', "utf-8")
    for name in ("store/a.py", "store/log/b.py", "client/command/__main__.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert left_out(tmp_path) == ["mantamq.store.log"]
