"""House style as ordinary tests (the folders and who may import whom: see the README).

Each check is a function over a source tree that returns what it found wrong, one sentence each. Each is run on the real
tree, where it must find nothing, and on a planted bad tree, where it must find what was planted.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("protocol", "store", "actors", "client", "jobs", "benchmarks")

MAY_IMPORT: dict[str, set[str]] = {
    "protocol": set(),
    "store": {"protocol"},
    "actors": {"protocol", "store"},
    "client": {"protocol"},
    "jobs": {"protocol", "store"},
    "benchmarks": {"client", "protocol"},
}
# Inside functions only, never when the module is loaded.
MAY_IMPORT_LATE: dict[str, set[str]] = {
    "client": {"actors"},  # to start or find a cluster; a client of "host:port" must not pay for Ray
    "client/cli/analyze.py": {"jobs"},  # the one command that needs Spark
    "client/demo/analysis.py": {"actors", "jobs"},  # the demo's end
    "benchmarks/__main__.py": {"actors"},  # to start the cluster it measures
    "benchmarks/capture.py": {"actors"},
    "benchmarks/killing.py": {"actors"},
    "benchmarks/joining.py": {"actors"},
    "benchmarks/links_limit.py": {"actors"},  # whose links it measures
    "benchmarks/spark.py": {"jobs", "store"},  # what it measures
}
PURE_STDLIB = {
    *("__future__", "abc", "array", "base64", "binascii", "bisect", "collections", "contextlib", "copy", "dataclasses"),
    *(
        "decimal",
        "difflib",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "hmac",
        "itertools",
        "json",
        "keyword",
        "math",
    ),
    *("numbers", "operator", "re", "string", "struct", "types", "typing", "unicodedata", "zlib"),
}
PURE = PURE_STDLIB | {"msgpack", "msgspec"}
IMPURE_CALLS = {"open", "print", "input", "__import__", "eval", "exec", "breakpoint"}
PROTOCOL_LINES = 600
REMOTE_IN = "actors/ray_control/placement.py"
REMOTE_TOO = {
    "benchmarks/peers/ray_queue.py",  # a peer we measure: Ray's own queue, used as its users do
    "jobs/ray_nodes.py",  # a question to each node, before Spark comes near it; makes no actor
}


# ---- reading a tree


@dataclass(frozen=True)
class Import:
    """One imported name: `module` is absolute ("mantamq.protocol.events"); `late` means inside a function."""

    line: int
    module: str
    relative: bool
    late: bool

    @property
    def top(self) -> str:
        return self.module.split(".")[0]

    @property
    def ours(self) -> str:
        """Which of our packages it is, or ""."""
        parts = self.module.split(".")
        if parts[0] == "mantamq":
            return parts[1] if len(parts) > 1 else "mantamq"
        return parts[0] if parts[0] in OURS or parts[0] == "tests" else ""


def files(root: Path, package: str) -> list[tuple[str, ast.Module]]:
    """The package's modules: path below the root, and what is in them."""
    found = sorted((root / package).rglob("*.py"))
    return [(path.relative_to(root).as_posix(), ast.parse(path.read_text("utf-8"), str(path))) for path in found]


def imports(file: str, tree: ast.Module) -> Iterator[Import]:
    package = ("mantamq", *file.split("/")[:-1])

    def walk(node: ast.AST, late: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(child.lineno, alias.name, False, late)
            elif isinstance(child, ast.ImportFrom):
                base = package[: max(0, len(package) - child.level + 1)] if child.level else ()
                module = ".".join([*base, *([child.module] if child.module else [])])
                for alias in child.names:
                    name = f"{module}.{alias.name}" if module == "mantamq" else module
                    yield Import(child.lineno, name or alias.name, child.level > 0, late)
            else:
                yield from walk(child, late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    yield from walk(tree, False)


# ---- the checks


def protocol_impure(root: Path) -> list[str]:
    """protocol/ is pure: a short list of modules, and no call that reaches out."""
    wrong = []
    for file, tree in files(root, "protocol"):
        for one in imports(file, tree):
            if one.ours != "protocol" and one.top not in PURE:
                wrong.append(f"{file}:{one.line}: protocol/ is pure, it may not import {one.module}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
                wrong.append(f"{file}:{node.lineno}: protocol/ is pure, it may not call {node.func.id}")
    return wrong


def wrong_imports(root: Path) -> list[str]:
    """Who may import whom, and how."""
    wrong = []
    for package in OURS:
        for file, tree in files(root, package):
            late = MAY_IMPORT_LATE.get(package, set()) | MAY_IMPORT_LATE.get(file, set())
            for one in imports(file, tree):
                if not one.ours:
                    continue
                if not one.relative:
                    wrong.append(f"{file}:{one.line}: import {one.module} relatively")
                if one.ours == package or one.ours in MAY_IMPORT[package] or (one.late and one.ours in late):
                    continue
                hint = ", except inside a function" if one.ours in late else ""
                wrong.append(f"{file}:{one.line}: {package}/ may not import {one.ours}{hint}")
    return wrong


CLIENT_WITHOUT_RAY = """
import sys, traceback, types

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "ray":
            traceback.print_stack(file=sys.stdout)
            raise ImportError("no Ray here")

sys.meta_path.insert(0, Watch())
mantamq = types.ModuleType("mantamq")
mantamq.__path__ = [sys.argv[1]]
sys.modules["mantamq"] = mantamq
import mantamq.client
"""


def client_imports_ray(root: Path) -> list[str]:
    """`import mantamq.client` in a fresh interpreter imports no Ray, not even if it would do without."""
    command = [sys.executable, "-c", CLIENT_WITHOUT_RAY, str(root)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    where = [line.strip() for line in ran.stdout.splitlines() if f'"{root}' in line]
    if ran.stdout:
        return [f"import mantamq.client imports ray: {where[-1] if where else ran.stdout}"]
    return [f"import mantamq.client fails: {ran.stderr}"] if ran.returncode else []


def long_files(root: Path) -> list[str]:
    """A file in protocol/ has one idea; one that long has several."""
    counts = [(path.name, len(path.read_text("utf-8").splitlines())) for path in (root / "protocol").rglob("*.py")]
    return [f"protocol/{name} has {n} lines: split it" for name, n in sorted(counts) if n > PROTOCOL_LINES]


def remote_elsewhere(root: Path) -> list[str]:
    """`ray.remote` is applied in one file, so that names, nodes and lifetimes are decided in one file."""
    if not (root / "actors").is_dir():
        return []
    wrong = []
    applied = False
    for package in OURS:
        for file, tree in files(root, package):
            names = {"ray"}
            lines = []
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    names |= {alias.asname for alias in node.names if alias.name == "ray" and alias.asname}
                elif isinstance(node, ast.ImportFrom) and node.module == "ray" and not node.level:
                    lines += [node.lineno for alias in node.names if alias.name == "remote"]
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and node.attr == "remote" and isinstance(node.value, ast.Name):
                    lines += [node.lineno] if node.value.id in names else []
            if file == REMOTE_IN:
                applied = bool(lines)
            elif file not in REMOTE_TOO:
                wrong += [f"{file}:{line}: ray.remote belongs in {REMOTE_IN}" for line in lines]
    return wrong if applied else [*wrong, f"{REMOTE_IN} does not apply ray.remote"]


# ---- the real tree

CHECKS = [protocol_impure, wrong_imports, client_imports_ray, long_files, remote_elsewhere]


@pytest.mark.parametrize("check", CHECKS)
def test_the_real_tree_is_tidy(check):
    assert check(ROOT) == []


def test_the_real_tree_was_read():
    read = [file for package in OURS for file, _ in files(ROOT, package)]
    assert {"protocol/wire/events.py", "actors/ray_control/placement.py", "client/__init__.py"} <= set(read)
    late = [one for file, tree in files(ROOT, "client") for one in imports(file, tree) if one.ours == "actors"]
    assert late, "client/ starts a cluster somewhere"
    assert all(one.late for one in late)


# ---- planted bad trees


def plant(root: Path, sources: dict[str, str]) -> Path:
    """Write a tree of files, with an actors/ray_control/placement.py as it should be unless `sources` has another."""
    for name, source in {REMOTE_IN: "import ray\nray.remote(int)", **sources}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, "utf-8")
    return root


FORBIDDEN = (
    "ray socket asyncio time random os pathlib threading io selectors subprocess datetime uuid secrets numpy mantamq"
)


@pytest.mark.parametrize("name", FORBIDDEN.split())
@pytest.mark.parametrize("form", ["import {}", "from {} import x", "def f():\n    import {}", "import {}.sub as y"])
def test_an_impure_import_is_found(tmp_path, name, form):
    assert protocol_impure(plant(tmp_path, {"protocol/a.py": form.format(name)}))


@pytest.mark.parametrize(
    "source", ["from ..store import x", "from .. import actors", "import client", "import tests.x"]
)
def test_protocol_importing_ours_is_found(tmp_path, source):
    assert protocol_impure(plant(tmp_path, {"protocol/a.py": source}))


@pytest.mark.parametrize("call", ["open('x')", "print(1)", "input()", "__import__('os')", "f = lambda: print()"])
def test_an_impure_call_is_found(tmp_path, call):
    assert protocol_impure(plant(tmp_path, {"protocol/deep/a.py": call}))


def test_pure_code_passes(tmp_path):
    source = "import msgspec\nfrom collections.abc import Iterator\nfrom . import b\nfrom .b import c\nself.open()"
    assert protocol_impure(plant(tmp_path, {"protocol/a.py": source})) == []


@pytest.mark.parametrize(
    ("file", "source", "found"),
    [
        ("store/a.py", "from ..actors import x", "store/ may not import actors"),
        ("actors/a.py", "from ..client.sync import x", "actors/ may not import client"),
        ("actors/a.py", "def f():\n    from .. import client", "actors/ may not import client"),
        ("client/a.py", "from ..actors import x", "client/ may not import actors, except inside a function"),
        (
            "client/a.py",
            "class C:\n    from ..actors import x",
            "client/ may not import actors, except inside a function",
        ),
        (
            "client/a.py",
            "if True:\n    from .. import actors",
            "client/ may not import actors, except inside a function",
        ),
        ("client/a.py", "def f():\n    from ..store import x", "client/ may not import store"),
        ("jobs/a.py", "from ..actors import x", "jobs/ may not import actors"),
        ("benchmarks/peers/a.py", "from ...store import x", "benchmarks/ may not import store"),
        ("benchmarks/a.py", "def f():\n    from ..actors import x", "benchmarks/ may not import actors"),
        ("benchmarks/__main__.py", "from ..actors import x", "benchmarks/ may not import actors"),
        ("actors/a.py", "import tests.simulation", "actors/ may not import tests"),
        ("actors/a.py", "from mantamq.protocol import x", "import mantamq.protocol relatively"),
        ("actors/a.py", "from mantamq import protocol", "import mantamq.protocol relatively"),
        ("client/a.py", "import protocol.events", "import protocol.events relatively"),
    ],
)
def test_a_wrong_import_is_found(tmp_path, file, source, found):
    assert any(found in one for one in wrong_imports(plant(tmp_path, {file: source})))


def test_allowed_imports_pass(tmp_path):
    root = plant(
        tmp_path,
        {
            "store/a.py": "from ..protocol.events import x\nfrom .b import y",
            "actors/a.py": "from .. import protocol\nfrom ..store import x",
            "client/a.py": "import ray\nasync def f():\n    from ..actors.cluster import x",
            "benchmarks/peers/a.py": "from ..processes import x\nfrom ...client import y",
        },
    )
    assert wrong_imports(root) == []


@pytest.mark.parametrize("source", ["import ray", "try:\n    import ray\nexcept ImportError:\n    ray = None"])
def test_a_client_that_imports_ray_is_found(tmp_path, source):
    root = plant(tmp_path, {"client/__init__.py": "from . import a", "client/a.py": source})
    (found,) = client_imports_ray(root)
    assert "imports ray" in found and "a.py" in found


def test_a_client_that_does_not_load_is_found(tmp_path):
    (found,) = client_imports_ray(plant(tmp_path, {"client/__init__.py": "1 / 0"}))
    assert "ZeroDivisionError" in found


def test_a_long_file_is_found(tmp_path):
    root = plant(
        tmp_path, {"protocol/a.py": "x = 1\n" * PROTOCOL_LINES, "protocol/deep/b.py": "x = 1\n" * (PROTOCOL_LINES + 1)}
    )
    assert long_files(root) == ["protocol/b.py has 601 lines: split it"]


@pytest.mark.parametrize(
    "source",
    [
        "import ray\n@ray.remote\nclass A: ...",
        "import ray\n@ray.remote(num_cpus=0)\ndef f(): ...",
        "import ray as r\nr.remote(int)",
        "from ray import remote",
        "def f():\n    from ray import remote as far",
    ],
)
def test_ray_remote_elsewhere_is_found(tmp_path, source):
    assert remote_elsewhere(plant(tmp_path, {"actors/a.py": source}))
    assert remote_elsewhere(plant(tmp_path / "2", {"benchmarks/a.py": source}))


def test_ray_remote_nowhere_is_found(tmp_path):
    assert remote_elsewhere(plant(tmp_path, {REMOTE_IN: ""})) == [f"{REMOTE_IN} does not apply ray.remote"]


def test_an_actor_call_is_no_ray_remote(tmp_path):
    assert remote_elsewhere(plant(tmp_path, {"actors/a.py": "actor.step.remote(1)\nself.handle.remote()"})) == []


def test_no_actors_no_check(tmp_path):
    assert remote_elsewhere(tmp_path) == []


# ---- unit tests and Ray


def test_unit_tests_cannot_start_ray():
    import ray

    with pytest.raises(pytest.fail.Exception, match="belongs in tests/cluster"):
        ray.init()
