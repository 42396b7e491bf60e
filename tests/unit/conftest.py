"""Unit tests start no Ray: `ray.init` fails here, and says where such a test belongs.

Importing Ray takes a second, so nothing here does. If a test has imported it already, it is patched at once; if a test
imports it later, it is patched in the moment its module has run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NoReturn

import pytest

ADVICE = "unit tests start no Ray: a test that needs a real cluster belongs in tests/cluster"


def refuse(*_: Any, **__: Any) -> NoReturn:
    """Takes the place of `ray.init`. Not an `Exception`, so that no code under test swallows it."""
    pytest.fail(ADVICE)


class PatchOnImport:
    """An import hook that hands the module `name` to `patch` right after it has been imported."""

    def __init__(self, name: str, patch: Any) -> None:
        self.name = name
        self.patch = patch

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self.patch(module)

            spec.loader.exec_module = exec_module
        return spec


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes `ray.init` fail in every unit test."""

    def patch(module: ModuleType) -> None:
        monkeypatch.setattr(module, "init", refuse)

    hook = PatchOnImport("ray", patch)
    if "ray" in sys.modules:
        patch(sys.modules["ray"])
    sys.meta_path.insert(0, hook)
    yield
    sys.meta_path.remove(hook)
