"""House style as ordinary tests (the folders and who may import whom: see the README).

Each check is a function over a source tree that returns what it found wrong, one sentence each. Each is run on the real
tree, where it must find nothing, and on a planted bad tree, where it must find what was planted.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("protocol", "store", "actors", "client", "jobs", "management", "benchmarks")

MAY_IMPORT: dict[str, set[str]] = {
    "protocol": set(),
    "store": {"protocol"},
    "actors": {"protocol", "store"},
    "client": {"protocol"},
    "jobs": {"protocol", "store"},
    "management": {"client", "protocol"},
    "benchmarks": {"client", "protocol"},
}
# Inside functions only, never when the module is loaded.
MAY_IMPORT_LATE: dict[str, set[str]] = {
    "actors/members/management_node.py": {"management"},  # which it serves: no other process pays for it
    "client": {"actors"},  # to start or find a cluster; a client of "host:port" must not pay for Ray
    "client/cli/analyze.py": {"jobs"},  # the one command that needs Spark
    "client/cli/live.py": {"management"},  # the model of a cluster that `top` and `watch` show
    "client/cli/top.py": {"management"},  # a page of its table of queues
    "client/cli/grafana.py": {"management"},  # which makes what it writes
    "actors/members/ray_metrics.py": {"management"},  # whose metrics it sets
    "client/cli/store.py": {"store"},  # what it shows: the only command that opens files of brokers
    "client/demo/analysis.py": {"actors", "jobs"},  # the demo's end
    "benchmarks/__main__.py": {"actors"},  # to start the cluster it measures
    "benchmarks/capture.py": {"actors"},
    "benchmarks/disk.py": {"store"},  # which knows file systems
    "benchmarks/durable.py": {"actors"},
    "benchmarks/killing.py": {"actors"},
    "benchmarks/joining.py": {"actors"},
    "benchmarks/restart.py": {"actors"},
    "benchmarks/seen.py": {"actors"},
    "benchmarks/waiting.py": {"actors"},
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
PURE = PURE_STDLIB | {"lark", "msgpack", "msgspec"}
IMPURE_CALLS = {"open", "print", "input", "__import__", "eval", "exec", "breakpoint"}
REMOTE_IN = "actors/ray_control/placement.py"
REMOTE_TOO = {
    "benchmarks/peers/ray_actors.py",  # what Ray takes for an actor of anybody's that does nothing
    "benchmarks/peers/ray_queue.py",  # a peer we measure: Ray's own queue, used as its users do
    "jobs/ray_nodes.py",  # a question to each node, before Spark comes near it; makes no actor
}

# Which rooms and files of protocol/ a room (or a file that is none's) may import, besides its own files. No circles.
OFFICE = "supervisor/office.py"  # whose orders a member takes: a value that every machine knows
ROOMS: dict[str, set[str]] = {
    "errors.py": set(),
    "limits.py": {"errors.py"},
    "range_columns.py": set(),
    "ranges.py": {"range_columns.py"},
    "timing.py": {"errors.py"},
    "wire": {"errors.py", "limits.py"},
    "status": {"errors.py", "wire"},
    "machine.py": {"wire"},
    "outbox.py": {"machine.py", "wire"},
    "companions.py": {"machine.py"},
    "resident.py": {"machine.py", "wire"},
    "log": {"companions.py", "errors.py", "limits.py", "machine.py", "timing.py", "wire"},
    "wiring": {"errors.py", "limits.py", "queue/declared.py", "queue/settings.py", "wire", OFFICE},
    "queue": {"errors.py", "limits.py", "range_columns.py", "ranges.py", "timing.py", "wire"},
    "lock": {"log", "machine.py", "status", "timing.py", "wire", OFFICE},
    "sequencer": {
        "errors.py",
        "limits.py",
        "lock/duty.py",
        "log",
        "machine.py",
        "outbox.py",
        "status",
        "timing.py",
        "wire",
        OFFICE,
    },
    "stored": {
        "broker",
        "errors.py",
        "limits.py",
        "log",
        "machine.py",
        "queue",
        "ranges.py",
        "replica",
        "timing.py",
        "wire",
    },
    "replica": {
        "companions.py",
        "errors.py",
        "limits.py",
        "lock",
        "log",
        "machine.py",
        "queue",
        "range_columns.py",
        "ranges.py",
        "resident.py",
        "status",
        "timing.py",
        "wire",
        OFFICE,
    },
    "broker": {
        "companions.py",
        "errors.py",
        "limits.py",
        "log",
        "machine.py",
        "queue",
        "ranges.py",
        "status",
        "timing.py",
        "wire",
        "wiring",
        OFFICE,
    },
    "store": {"errors.py", "machine.py", "resident.py", "status", "timing.py", "wire"},
    "supervisor": {"errors.py", "log", "machine.py", "status", "timing.py", "wire"},
    # What it tells of: what brokers and replicas apply; their machines it does not know.
    "capture": {
        "broker/observers.py",
        "errors.py",
        "machine.py",
        "queue",
        "ranges.py",
        "replica/observers.py",
        "status",
        "wire",
        "wiring",
        "limits.py",
        "timing.py",
    },
}
ACYCLIC = ("protocol", "store", "actors", "client", "jobs", "management")
NAMED = ("protocol", "store", "actors", "client")

# Fields of a status whose names other dictionaries have as well: what is remembered of a cluster, where a process runs,
# how far a change is, a queue as a client is told of it.
PLAIN_TOO = {
    *(
        "accepted",
        "address",
        "ballot",
        "broker",
        "clients",
        "connections",
        "enqueued",
        "error",
        "events",
        "host",
        "loop",
    ),
    *("members", "messages", "name", "namespace", "node", "owner", "peers", "pid", "queue", "queues", "stage"),
}
STATUS_READERS = ("actors", "client/cli", "protocol/supervisor")

# Lines. A function without its docstring is no longer than the longest was when this was written.
FUNCTION_LINES = {
    "protocol": 59,
    "store": 27,
    "actors": 58,
    "client": 70,
    "jobs": 55,
    "management": 50,
    "benchmarks": 50,
}
CLASS_LINES = 300
FILE_LINES = 400

MAY_BE_DEAD = {
    **dict.fromkeys(
        ("connection_made", "connection_lost", "data_received", "pause_writing", "resume_writing"),
        "asyncio calls it by this name",
    ),
    "capture_signals": "uvicorn calls it by this name",
    "redirect_request": "urllib calls it by this name",
    "header": "a replica's way to read a message, for the first kind of queue that goes by one",
}
MAY_SHARE_NAME = {
    "Session": "the two ends of one session",
    "Management": "the two ends of one talk: what a client asks, and the broker that answers",
    "Moved": "the event that the copies of moved messages are there, and what its client is told of a move",
    "Empty": "Ray's name and ours in one class, so that both catch it",
    "Full": "Ray's name and ours in one class, so that both catch it",
    "InUse": "the event that a queue has consumers, and the error that its deletion gets for that",
    "Return": "the event that a broker is back with its log, and the supervisor's deed that has it started again",
    "Lost": "the event that a queue was lost, and the error by which its clients hear so",
}

HANDED_LATER = {
    "actors/members/member.py Office": "orders come before the member's configuration",
    "actors/supervisor/rebalancer.py Rebalance": "made before the plan is known, and again when it is",
}

# Known offenders, by check: files, pairs, names. The lists only shrink: an entry that is mended has to go.
NOT_YET: dict[str, set[str]] = {
    "assigned_constants": {
        "tests/unit/actors/ray_control/test_bound.py actors/ray_control/bound LOOK_S",
        "tests/unit/actors/ray_control/test_door.py actors/ray_control/door KNOCK_S",
        "tests/unit/chaos/test_parts.py benchmarks/recovery LIMIT_S",
        "tests/unit/client/cli/test_broker.py client/cli/broker PATIENCE_S",
        "tests/unit/client/test_end.py client/sync/socket_thread CLOSE_S",
        "tests/unit/client/test_unroutable.py protocol/broker/connections MINOR",
    },
}
# The same for what is too long: the lines it may have until it is cut.
NOT_YET_LINES: dict[str, int] = {}


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
    return [(path.relative_to(root).as_posix(), parsed(path.read_text("utf-8"), str(path))) for path in found]


@cache
def parsed(text: str, file: str) -> ast.Module:
    """Read once for all checks, which only look at it."""
    return ast.parse(text, file)


@cache
def nodes(tree: ast.Module) -> list[ast.AST]:
    return list(ast.walk(tree))


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


def imported_files(file: str, tree: ast.Module, known: Mapping[str, object]) -> set[str]:
    """The files of the tree that a file imports: at its top, inside functions, and for type checking only."""
    folder = file.split("/")[:-1]
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*folder[: len(folder) - node.level + 1], *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                paths = ["/".join([*base, alias.name]), "/".join(base)]
                tries = [path + end for path in paths for end in (".py", "/__init__.py")]
                found |= set([one for one in tries if one in known][:1])
    return found - {file}


def defined(tree: ast.Module) -> Iterator[tuple[str, str, ast.stmt]]:
    """The definitions at a module's top, and its classes' methods: "Class.method", "method", and the node."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.name, node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from ((one.id, one.id, node) for one in ast.walk(target) if isinstance(one, ast.Name))
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{inner.name}", inner.name, inner


def mentioned(tree: ast.AST) -> Counter[tuple[str, bool]]:
    """How often each name is mentioned, and whether behind a dot (or as a string, which says either)."""
    found: Counter[tuple[str, bool]] = Counter()
    for node in nodes(tree) if isinstance(tree, ast.Module) else ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found[node.id, False] += 1
        elif isinstance(node, ast.Attribute):
            found[node.attr, True] += 1
        elif isinstance(node, ast.alias) and node.asname not in (None, node.name):
            found[node.name, False] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.update([(node.value, False), (node.value, True)])
    return found


def circles(edges: dict[str, set[str]]) -> dict[str, list[str]]:
    """The nodes that lie in a circle, each with the shortest way back to itself."""
    found = {}
    for start in edges:
        ways = {start: [start]}
        for here in (queue := [start]):
            for there in sorted(edges[here] & set(edges)):
                if there == start:
                    found.setdefault(start, [*ways[here], start])
                elif there not in ways:
                    ways[there] = [*ways[here], there]
                    queue.append(there)
    return found


# ---- the checks


def protocol_impure(root: Path) -> list[str]:
    """protocol/ is pure: a short list of modules, and no call that reaches out."""
    wrong = []
    for file, tree in files(root, "protocol"):
        for one in imports(file, tree):
            if one.ours != "protocol" and one.top not in PURE:
                wrong.append(f"{file}:{one.line}: protocol/ is pure, it may not import {one.module}")
        for node in nodes(tree):
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


def inner_examples(root: Path) -> list[str]:
    """Who copies a program of examples/ has what is installed, and of that what users import."""
    return [
        f"{file}:{one.line}: a program of examples/ may not import {one.module}: only mantamq.client is for users"
        for file, tree in files(root, "examples")
        for one in imports(file, tree)
        if one.relative or one.top == "tests" or (one.top == "mantamq" and one.module != "mantamq.client")
    ]


def import_circles(root: Path) -> list[str]:
    """No module of a folder imports itself by way of others there, counted with what is imported late or for types."""
    wrong = []
    for package in ACYCLIC:
        modules = dict(files(root, package))
        edges = {file: imported_files(file, tree, modules) for file, tree in modules.items()}
        wrong += [f"{file}: imports itself: {' -> '.join(way)}" for file, way in circles(edges).items()]
    return wrong


def room_of(file: str) -> str:
    """A file's room in protocol/, or the file itself where it lies in none."""
    return file.split("/")[1]


def wrong_rooms(root: Path) -> list[str]:
    """Which rooms of protocol/ import which; a room's door, its `machine.py`, is not imported from inside."""
    wrong = []
    modules = {file: tree for file, tree in files(root, "protocol") if file != "protocol/__init__.py"}
    for file, tree in modules.items():
        room = room_of(file)
        if room not in ROOMS:
            wrong.append(f"{file}: it is in no room that ROOMS knows")
            continue
        for other in sorted(imported_files(file, tree, modules)):
            if room_of(other) == room:
                if other == f"protocol/{room}/machine.py":
                    wrong.append(f"{file} -> {other}: a part does not import its room's door")
            elif not {room_of(other), other.removeprefix("protocol/")} & ROOMS[room]:
                wrong.append(f"{file} -> {other}: {room} may not import {room_of(other)}")
    return wrong


def too_long(root: Path, not_yet: Mapping[str, int] | None = None) -> list[str]:
    """A file or class in protocol/ has one idea, and one that long has several; a function anywhere fits on a page."""
    lengths = {}
    for package in OURS:
        for file, tree in files(root, package):
            if package == "protocol":
                lengths[file] = (len((root / file).read_text("utf-8").splitlines()), FILE_LINES)
            for node in nodes(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    first = node.body[0]
                    said = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
                    lines = node.end_lineno - node.lineno + 1 - said
                    was, _ = lengths.get(f"{file} {node.name}", (0, 0))
                    lengths[f"{file} {node.name}"] = (max(lines, was), FUNCTION_LINES[package])
                elif isinstance(node, ast.ClassDef) and package == "protocol":
                    lengths[f"{file} {node.name}"] = (node.end_lineno - node.lineno + 1, CLASS_LINES)
    known = NOT_YET_LINES if not_yet is None else not_yet
    wrong = []
    for name, (lines, most) in lengths.items():
        if lines > max(most, known.get(name, 0)):
            wrong.append(
                f"{name}: has {lines} lines, more than {max(most, known.get(name, 0))}: cut it where it has a seam"
            )
        elif name in known and lines <= most:
            wrong.append(f"{name}: has {lines} lines now: take it out of NOT_YET_LINES")
    return wrong + [f"{name}: is not there: take it out of NOT_YET_LINES" for name in known if name not in lengths]


def statuses_by_string(root: Path) -> list[str]:
    """A status is read by its fields, which the type checker knows, and not by strings."""
    classes = [
        node for _, tree in files(root, "protocol/status") for node in tree.body if isinstance(node, ast.ClassDef)
    ]
    fields = {ast.unparse(one.target) for node in classes for one in node.body if isinstance(one, ast.AnnAssign)}
    wrong = []
    for file, tree in (pair for package in STATUS_READERS for pair in files(root, package)):
        for node in nodes(tree):
            key: ast.expr | None = None
            if isinstance(node, ast.Subscript):
                key = node.slice
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                key = node.args[0] if node.args else None
            if isinstance(key, ast.Constant) and key.value in fields - PLAIN_TOO:
                wrong.append(f"{file}:{key.lineno}: {key.value!r} is a field of a status: read it as an attribute")
    return wrong


def dead_definitions(root: Path) -> list[str]:
    """Definitions that nothing mentions. In protocol/ the product has to: a test keeps nothing alive there."""
    trees = {file: tree for package in (*OURS, "tests") for file, tree in files(root, package)}
    trees.pop("tests/unit/test_tidy.py", None)  # its lists mention what they let pass
    ours, all_of_it = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    by_file = {file: mentioned(tree) for file, tree in trees.items()}
    for file, found in by_file.items():
        all_of_it.update(found)
        ours.update({} if file.startswith("tests/") else found)
    wrong = []
    for package in ACYCLIC:
        alive = ours if package == "protocol" else all_of_it
        for file, tree in files(root, package):
            for called, name, node in defined(tree):
                handed = getattr(node, "decorator_list", [])
                if name.startswith("__") or name in MAY_BE_DEAD:
                    continue
                if any(isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) for one in handed):
                    continue  # `@app.command()` knows it
                keys = [(name, True)] if "." in called else [(name, False), (name, True)]
                if any(alive[key] > by_file[file][key] for key in keys):
                    continue  # another file does
                itself = mentioned(node)
                if not any(alive[key] > itself[key] for key in keys):
                    wrong.append(f"{file} {called}: nothing mentions it: take it out")
    return wrong


def named(node: ast.AST) -> Iterator[str]:
    """The constants that one statement or call gives another value, as "module.NAME" in the words of its file: by
    assignment behind a dot, or by any `setattr` or `patch` of a name, or of a string that names it."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
        yield f"{node.value.id}.{node.attr}"
    elif isinstance(node, ast.Call) and patches(node.func):
        first, second = [*node.args, None, None][:2]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value
        elif isinstance(first, ast.Name) and isinstance(second, ast.Constant):
            yield f"{first.id}.{second.value}"


def patches(called: ast.expr) -> bool:
    """`setattr`, `patch` or `patch.object`, whatever it is called on."""
    if isinstance(called, ast.Attribute) and called.attr == "object":
        return patches(called.value)
    last = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return last.endswith(("setattr", "patch"))


def assigned_constants(root: Path) -> list[str]:
    """Tests and simulators hand machines their times and limits: none gives a constant of the product another value."""
    wrong = []
    for file, tree in files(root, "tests"):
        modules: dict[str, str] = {}  # a name in this file -> the module of the product that it stands for
        for node in nodes(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mantamq."):
                modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        for node in nodes(tree):
            for one in named(node):
                owner, _, name = one.rpartition(".")
                if name.isupper() and modules.get(owner, owner).startswith("mantamq."):
                    module = modules.get(owner, owner).removeprefix("mantamq.").replace(".", "/")
                    wrong.append(f"{file} {module} {name}: is given another value: let it be handed in")
    return wrong


def unread_fields(root: Path) -> list[str]:
    """Every field of `Timing` and `Limits` is read somewhere in the product."""
    trees = {file: tree for package in OURS for file, tree in files(root, package)}
    read = Counter(node.attr for tree in trees.values() for node in nodes(tree) if isinstance(node, ast.Attribute))
    wrong = []
    for file, called in (("protocol/timing.py", "Timing"), ("protocol/limits.py", "Limits")):
        for node in trees[file].body if file in trees else ():
            if isinstance(node, ast.ClassDef) and node.name == called:
                fields = [one.target.id for one in node.body if isinstance(one, ast.AnnAssign)]  # type: ignore[union-attr]
                wrong += [f"{called}.{field}: nothing reads it" for field in fields if not read[field]]
    return wrong


def kept_back(root: Path) -> list[str]:
    """A part that takes `timing` or `limits` has a default for tests alone: who builds it in the product hands it on."""
    trees = {file: tree for package in ("protocol", "actors") for file, tree in files(root, package)}
    takes: dict[str, list[tuple[str, int]]] = {}  # class -> parameters that it must be given, and the place of each
    for tree in trees.values():
        for node in nodes(tree):
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
                        names = [argument.arg for argument in (*inner.args.args[1:], *inner.args.kwonlyargs)]
                        found = [(name, at) for at, name in enumerate(names) if name in ("timing", "limits")]
                        takes |= {node.name: found} if found else {}
    wrong = []
    for file, tree in trees.items():
        for node in nodes(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in takes:
                given = {word.arg for word in node.keywords}
                for name, at in takes[node.func.id]:
                    if name in given or None in given or len(node.args) > at:
                        continue
                    if f"{file} {node.func.id}" not in HANDED_LATER:
                        wrong.append(f"{file} {node.func.id}: is built without {name}")
    return wrong


def shared_names(root: Path) -> list[str]:
    """A class name means one thing in all of protocol/, store/, actors/ and client/."""
    where = defaultdict(list)
    for package in NAMED:
        for file, tree in files(root, package):
            for node in nodes(tree):
                if isinstance(node, ast.ClassDef) and node.name not in MAY_SHARE_NAME:
                    where[node.name].append(f"{file}:{node.lineno}")
    return [f"{name}: one class name for {' and '.join(found)}" for name, found in where.items() if len(found) > 1]


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
            for node in nodes(tree):
                if isinstance(node, ast.Import):
                    names |= {alias.asname for alias in node.names if alias.name == "ray" and alias.asname}
                elif isinstance(node, ast.ImportFrom) and node.module == "ray" and not node.level:
                    lines += [node.lineno for alias in node.names if alias.name == "remote"]
            for node in nodes(tree):
                if isinstance(node, ast.Attribute) and node.attr == "remote" and isinstance(node.value, ast.Name):
                    lines += [node.lineno] if node.value.id in names else []
            if file == REMOTE_IN:
                applied = bool(lines)
            elif file not in REMOTE_TOO:
                wrong += [f"{file}:{line}: ray.remote belongs in {REMOTE_IN}" for line in lines]
    return wrong if applied else [*wrong, f"{REMOTE_IN} does not apply ray.remote"]


# ---- the real tree

CHECKS = [
    protocol_impure,
    wrong_imports,
    client_imports_ray,
    inner_examples,
    import_circles,
    wrong_rooms,
    too_long,
    statuses_by_string,
    dead_definitions,
    shared_names,
    assigned_constants,
    unread_fields,
    kept_back,
    remote_elsewhere,
]


def beyond(found: list[str], not_yet: set[str]) -> list[str]:
    """Offenders that are not known, and known ones that are mended."""
    offenders = {one.split(": ")[0] for one in found}
    mended = [f"{one}: is mended: take it out of NOT_YET" for one in sorted(not_yet - offenders)]
    return [one for one in found if one.split(": ")[0] not in not_yet] + mended


@pytest.mark.parametrize("check", CHECKS)
def test_the_real_tree_is_tidy(check):
    assert beyond(check(ROOT), NOT_YET.get(check.__name__, set())) == []


def test_the_list_of_offenders_only_shrinks():
    found = ["a -> b: wrong", "c: worse"]
    assert beyond(found, {"a -> b", "c"}) == []
    assert beyond(found, {"c"}) == ["a -> b: wrong"]
    assert beyond(found, {"a -> b", "c", "d"}) == ["d: is mended: take it out of NOT_YET"]
    assert set(NOT_YET) <= {check.__name__ for check in CHECKS}


def test_the_rooms_have_an_order():
    assert (
        circles({room: {one.split("/")[0] for one in others if one != OFFICE} for room, others in ROOMS.items()}) == {}
    )


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


@pytest.mark.parametrize(
    "source", ['x = report()["blank"]', 'x = report.get("blank", True)', 'x["actors"][0].get("blank")']
)
def test_a_status_that_is_read_by_string_is_found(tmp_path, source):
    status = "class BrokerStatus(StatusStruct):\n    blank: bool\n    address: str"
    for reader in ("actors/a.py", "client/cli/a.py", "protocol/supervisor/a.py"):
        root = plant(tmp_path / reader.replace("/", "_"), {"protocol/status/machines.py": status, reader: source})
        assert len(statuses_by_string(root)) == 1
    fine = {"protocol/status/machines.py": status, "actors/a.py": 'x = known["address"], status.blank'}
    assert statuses_by_string(plant(tmp_path / "fine", fine)) == []


@pytest.mark.parametrize("source", ["import ray", "try:\n    import ray\nexcept ImportError:\n    ray = None"])
def test_a_client_that_imports_ray_is_found(tmp_path, source):
    root = plant(tmp_path, {"client/__init__.py": "from . import a", "client/a.py": source})
    (found,) = client_imports_ray(root)
    assert "imports ray" in found and "a.py" in found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from mantamq.client import Message\nfrom mantamq import client\nimport mantamq.client, sys", 0),
        ("from mantamq.actors.cluster import start_cluster", 1),
        ("from mantamq.client.sync.sync import Connection", 1),
        ("from ..client import connect", 1),
        ("def f():\n    from tests.readme import text", 1),
    ],
)
def test_an_example_that_is_not_to_be_copied_is_found(tmp_path, source, found):
    assert len(inner_examples(plant(tmp_path, {"examples/a.py": source}))) == found


def test_a_client_that_does_not_load_is_found(tmp_path):
    (found,) = client_imports_ray(plant(tmp_path, {"client/__init__.py": "1 / 0"}))
    assert "ZeroDivisionError" in found


@pytest.mark.parametrize(
    "source",
    [
        "from .b import x",
        "from . import b",
        "def f():\n    from .b import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import x",
        "from .. import deep\nfrom ..deep import b",
    ],
)
def test_an_import_circle_is_found(tmp_path, source):
    for top in ACYCLIC:
        files = {"a": source, "b": "from .c import y", "c": "from ..deep.a import z", "d": "from . import a"}
        root = plant(tmp_path / top, {f"{top}/deep/{name}.py": text for name, text in files.items()})
        circle = [f"{top}/deep/{name}.py" for name in "abca"]
        assert import_circles(root) == [
            f"{circle[i]}: imports itself: {' -> '.join(circle[i:-1] + circle[: i + 1])}" for i in range(3)
        ], "d only looks at a circle"


def test_imports_without_a_circle_pass(tmp_path):
    sources = {"protocol/a.py": "from .deep import b\nfrom . import c", "protocol/deep/b.py": "from ..c import x"}
    assert import_circles(plant(tmp_path, {**sources, "protocol/c.py": "import a"})) == []


@pytest.mark.parametrize(
    ("file", "source", "found"),
    [
        (
            "wire/a.py",
            "from ..log import keeper",
            "protocol/wire/a.py -> protocol/log/keeper.py: wire may not import log",
        ),
        ("limits.py", "from .ranges import x", "limits.py may not import ranges.py"),
        ("machine.py", "from .log.keeper import x", "machine.py may not import log"),
        ("log/a.py", "def f():\n    from ..queue.state import x", "log may not import queue"),
        ("lock/a.py", "if TYPE_CHECKING:\n    from ..replica.machine import x", "lock may not import replica"),
        ("sequencer/a.py", "from ..lock import holder", "sequencer may not import lock"),
        ("replica/a.py", "from ..supervisor.turns import x", "replica may not import supervisor"),
        ("queue/a.py", "from ..capture.tap import x", "queue may not import capture"),
        ("replica/a.py", "from .machine import x", "a part does not import its room's door"),
        ("replica/a.py", "if TYPE_CHECKING:\n    from . import machine", "a part does not import its room's door"),
        ("cellar/a.py", "", "protocol/cellar/a.py: it is in no room"),
    ],
)
def test_a_wrong_door_is_found(tmp_path, file, source, found):
    others = [
        "log/keeper",
        "queue/state",
        "replica/machine",
        "lock/holder",
        "supervisor/turns",
        "capture/tap",
        "ranges",
    ]
    root = plant(tmp_path, {**{f"protocol/{other}.py": "" for other in others}, f"protocol/{file}": source})
    (wrong,) = wrong_rooms(root)
    assert found in wrong


def test_open_doors_pass(tmp_path):
    sources = {
        "log/keeper.py": "from ..wire.events import x\nfrom .quorum import y\nfrom .. import errors",
        "replica/machine.py": "from ..machine import x\nfrom . import update\nfrom ..lock.holder import y",
        "sequencer/machine.py": "from ..lock.duty import x\nfrom ..supervisor import office",
        "capture/tap.py": "from ..replica.observers import x",
        **dict.fromkeys(
            ["wire/events.py", "log/quorum.py", "errors.py", "machine.py", "replica/update.py", "replica/observers.py"],
            "",
        ),
        **dict.fromkeys(["lock/holder.py", "lock/duty.py", "supervisor/office.py"], ""),
    }
    assert wrong_rooms(plant(tmp_path, {f"protocol/{file}": source for file, source in sources.items()})) == []


def test_what_is_too_long_is_found(tmp_path):
    def body(lines: int) -> str:
        return "    x = 1\n" * lines

    most = FUNCTION_LINES["protocol"]
    root = plant(
        tmp_path,
        {
            "protocol/a.py": "x = 1\n" * FILE_LINES,
            "protocol/deep/b.py": "x = 1\n" * (FILE_LINES + 1),
            "protocol/c.py": "class Fits:\n" + body(CLASS_LINES - 1) + "class C:\n" + body(10),
            "protocol/d.py": "class D:\n" + body(CLASS_LINES),
            "protocol/e.py": 'def fits():\n    """It does\n\n    indeed."""\n'
            + body(most - 1)
            + "def e():\n"
            + body(most),
            "protocol/f.py": "class F:\n    async def g(self):\n" + body(most).replace("    x", "        x"),
            "client/b.py": "class B:\n" + body(1000) + "def b():\n" + body(FUNCTION_LINES["client"]),
        },
    )
    assert [one.split(": ")[0] for one in too_long(root, {})] == [
        *("protocol/d.py D", "protocol/deep/b.py", "protocol/e.py e", "protocol/f.py g", "client/b.py b"),
    ]
    known = {"protocol/d.py D": 301, "protocol/deep/b.py": 401, "protocol/e.py e": 60, "protocol/f.py g": 60}
    assert too_long(root, {**known, "client/b.py b": 71}) == []
    assert too_long(root, {**known, "client/b.py b": 71, "protocol/d.py D": 300})[0].startswith(
        "protocol/d.py D: has 301"
    )
    assert too_long(root, {**known, "client/b.py b": 71, "protocol/a.py": 450, "protocol/gone.py": 500}) == [
        "protocol/a.py: has 400 lines now: take it out of NOT_YET_LINES",
        "protocol/gone.py: is not there: take it out of NOT_YET_LINES",
    ]


@pytest.mark.parametrize(
    ("source", "dead"),
    [
        ("def f(): ...", "f"),
        ("def f():\n    return f()", "f"),
        ("async def f(): ...", "f"),
        ("class C:\n    def __init__(self): ...", "C"),
        ("X = 1", "X"),
        ("X: int = 1", "X"),
        ("X, y = 1, 2\nprint(y)", "X"),
        ("class C:\n    def m(self): ...\nC()", "C.m"),
        ("class C:\n    def m(self):\n        self.m()\nC()", "C.m"),
        ("class C:\n    def m(self): ...\nC()\ndef g(m):\n    return m\ng(1)", "C.m"),
    ],
)
def test_a_dead_definition_is_found(tmp_path, source, dead):
    root = plant(tmp_path / "1", {"jobs/a.py": source, "client/b.py": "from .. import jobs"})
    assert dead_definitions(root) == [f"jobs/a.py {dead}: nothing mentions it: take it out"]
    test = {"tests/unit/test_a.py": f"from mantamq import a\n{'a.C().m()' if '.' in dead else 'a.' + dead}"}
    assert dead_definitions(plant(tmp_path / "2", {"jobs/a.py": source, **test})) == []
    (found,) = dead_definitions(plant(tmp_path / "3", {"protocol/a.py": source, **test}))
    assert f"protocol/a.py {dead}:" in found, "tests keep nothing in protocol/ alive"


def test_what_is_mentioned_is_alive(tmp_path):
    sources = {
        "protocol/a.py": "def f(): ...\nX = 1\nclass C:\n    def m(self): ...\n    def __len__(self): ...",
        "protocol/b.py": "def called(): ...\ndef renamed(): ...\ndef exported(): ...",
        "actors/c.py": "from ..protocol import a\nfrom ..protocol.b import called, renamed as n\na.f(a.X)\ncalled(n)",
        "benchmarks/d.py": "from ..protocol.a import C\nC().m\n__all__ = ['exported']",
        "client/e.py": "from .app import app\n@app.command()\ndef verb(): ...",
        "actors/f.py": "def links():\n    class Link:\n        def connection_made(self): ...\nlinks()",
    }
    assert dead_definitions(plant(tmp_path, sources)) == []


def test_a_shared_class_name_is_found(tmp_path):
    sources = {
        "protocol/a.py": "class Told: ...",
        "client/b.py": "x = 1\nclass Told: ...",
        "actors/c.py": "class Tell: ...",
    }
    root = plant(
        tmp_path, {**sources, "jobs/d.py": "class Tell: ...", "store/e.py": "class Session: ...\nclass Session: ..."}
    )
    assert shared_names(root) == ["Told: one class name for protocol/a.py:1 and client/b.py:2"]


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


@pytest.mark.parametrize(
    "source",
    [
        "def f(patch):\n    patch.setattr(backlog, 'LOOK_MS', 5)",
        "def f(patch):\n    patch.setattr('mantamq.protocol.sequencer.backlog.LOOK_MS', 5)",
        "backlog.LOOK_MS = 5",
        "def f():\n    old, backlog.LOOK_MS = backlog.LOOK_MS, 5",
        "setattr(backlog, 'LOOK_MS', 5)",
        "with patch.object(backlog, 'LOOK_MS', 5): ...",
        "with mock.patch('mantamq.protocol.sequencer.backlog.LOOK_MS', 5): ...",
    ],
)
def test_a_constant_that_a_test_gives_another_value_is_found(tmp_path, source):
    root = plant(tmp_path, {"tests/a.py": f"from mantamq.protocol.sequencer import backlog\n{source}"})
    wrong = "tests/a.py protocol/sequencer/backlog LOOK_MS: is given another value: let it be handed in"
    assert assigned_constants(root) == [wrong]


def test_what_a_test_may_patch(tmp_path):
    source = "from mantamq.protocol.sequencer.backlog import Backlog\nfrom . import workload\n"
    source += "workload.CUT = 1\npatch.setattr(Backlog, 'look', f)\nprint(Backlog.LOOK_MS)"
    assert assigned_constants(plant(tmp_path, {"tests/a.py": source})) == []


def test_a_time_that_nothing_reads_is_found(tmp_path):
    fields = "class Timing:\n    evict_ms: int = 1\n    lost_ms: int = 2"
    root = plant(
        tmp_path, {"protocol/timing.py": fields, "protocol/a.py": "timing.lost_ms", "tests/a.py": "t.evict_ms"}
    )
    assert unread_fields(root) == ["Timing.evict_ms: nothing reads it"]


@pytest.mark.parametrize(("call", "found"), [("A(1)", 1), ("A(1, timing)", 0), ("A(1, timing=t)", 0), ("A(**all)", 0)])
def test_times_that_are_not_handed_on_are_found(tmp_path, call, found):
    source = "class A:\n    def __init__(self, one, timing=None): ...\n"
    root = plant(tmp_path, {"protocol/a.py": source, "protocol/b.py": f"from .a import A\n{call}"})
    assert kept_back(root) == ["protocol/b.py A: is built without timing"] * found


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
