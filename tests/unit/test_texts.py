"""What comments, docstrings and READMEs name is there: files, classes with their attributes, names.

A text drifts when what it names is moved, renamed or taken out. As in `test_tidy.py`, each check returns what it found
wrong, one sentence each, and is run on the real tree and on a planted one.
"""

from __future__ import annotations

import ast
import keyword
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

from .test_tidy import OURS, ROOT, nodes, parsed

FOLDERS = (*OURS, "examples", "tests")
TOLD_OF = ("protocol", "store", "actors", "client", "jobs", "management", "examples", "tests/simulation")
"""Folders whose README has a line for each file."""

FILE = re.compile(r"(?<![\w/.*<-])(?:\.\./)*[\w-]+(?:/[\w.-]+)*\.(?:py|md)\b")
QUOTED = re.compile(r"(?<!`)(``?)(?!`)([^`]+)\1(?!`)")
STRING_OR_COMMENT = re.compile(
    r"""\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*""", re.S
)
"""What begins first: a `#` in a string is no comment, a quote in a comment no string."""
ROOM = re.compile(r"^\| \*\*`(\w+)/`\*\*", re.M)

ELSEWHERE = {
    "design.md": "the design",
    "durable.md": "the design of the store",
    "sequencer.md": "the protocol's specification",
    "features.md": "the plan",
}
"""Pages that are kept beside the project."""
MAY_BE_NAMED = {
    "c17": "the name of a client's connection, for example",
    "Dataset.to_spark": "Ray's",
    **dict.fromkeys(("update_done", "ConnectionObserver", "MessageDistributor", "QueueFactory"), "Qpid's"),
}


@dataclass
class Tree:
    """The names in a source tree. `attributes`: class -> what it has; `bases`: class -> the classes it is made of."""

    root: Path
    files: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=lambda: set(keyword.kwlist))
    attributes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    bases: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        for folder in FOLDERS:
            self.files |= {path.relative_to(self.root).as_posix() for path in (self.root / folder).rglob("*.*")}
        self.files |= {path.relative_to(self.root).as_posix() for path in self.root.glob("*.*")}
        self.files |= {path.relative_to(self.root).as_posix() for path in (self.root / "docs").rglob("*.*")}
        for file in self.python():
            module = parsed((self.root / file).read_text("utf-8"), str(self.root / file))
            self.read(module, {id(node.value) for node in nodes(module) if isinstance(node, ast.Expr)}, ())

    def read(self, node: ast.AST, said: set[int], classes: tuple[str, ...]) -> None:
        """Take the names in a node, which is in those classes, and in all that is in it, but for what is only said."""
        if isinstance(node, ast.ClassDef):
            classes = (*classes, node.name)
            self.attributes[node.name]  # has none, perhaps
            self.bases[node.name] |= {base for one in node.bases for base in named(one)}
        if id(node) not in said and (found := named(node)):
            self.names |= found
            for one in classes:
                self.attributes[one] |= found
        for inner in ast.iter_child_nodes(node):
            self.read(inner, said, classes)

    def python(self) -> list[str]:
        return sorted(file for file in self.files if file.endswith(".py"))

    def pages(self) -> list[str]:
        """Texts about the tree as it is; the changelog is about how it was."""
        return sorted(file for file in self.files if file.endswith(".md") and file != "CHANGELOG.md")

    def has_file(self, file: str, mentioned: str) -> bool:
        """Whether a text in `file` may mention that file: by its path from there, or by the end of its path."""
        if mentioned.startswith("../"):
            return os.path.normpath(f"{Path(file).parent}/{mentioned}") in self.files
        end = mentioned.removeprefix("mantamq/")
        return mentioned in ELSEWHERE or any(one == end or one.endswith("/" + end) for one in self.files)

    def has_attribute(self, cls: str, attribute: str) -> bool:
        """Whether a class of ours has it, or a class of others that it is made of may have it."""
        if cls not in self.bases:
            return True
        return attribute in self.attributes[cls] or any(self.has_attribute(one, attribute) for one in self.bases[cls])

    def knows(self, quoted: str) -> bool:
        """Whether what stands in backticks is no name, or a name that is there."""
        name = re.sub(r"\(.*\)$", "", quoted)
        if quoted in MAY_BE_NAMED or not re.fullmatch(r"[A-Za-z_]\w+(\.\w+)?", name):
            return True
        first, dot, last = name.partition(".")
        if first in self.bases and dot:
            return self.has_attribute(first, last)
        wanted = {first, last} if first[0].isupper() and dot else {last or first}
        return wanted <= self.names or (name[0] == "_" and any(one.endswith(name) for one in self.names))


@cache
def real() -> Tree:
    return Tree(ROOT)


def named(node: ast.AST) -> set[str]:
    """The names in a node by itself; words in strings are names too, as in `getattr`."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.AsyncFunctionDef(name=name) | ast.Attribute(attr=name):
            return {name}
        case ast.keyword(arg=str(name)):
            return {name}
        case ast.alias(name=name) | ast.ImportFrom(module=str(name)):
            return set(name.split("."))
        case ast.Constant(value=str(text)):
            return set(re.findall(r"\w+", text))
        case _:
            return set()


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page, or of a module's comments and docstrings, with their numbers."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield from enumerate(text.split("\n"), 1)
        return
    line, at = 1, 0
    for found in STRING_OR_COMMENT.finditer(text):
        if found[0][0] == "#":
            line, at = line + text.count("\n", at, found.start()), found.start()
            yield line, found[0]
    for node in nodes(parsed(text, str(path))):
        match node:
            case ast.Expr(value=ast.Constant(value=str(said))):
                yield from enumerate(said.split("\n"), node.lineno)


def drifted(root: Path) -> list[str]:
    """Texts that name what is not there."""
    tree = real() if root == ROOT else Tree(root)
    wrong = []
    for file in [*tree.python(), *tree.pages()]:
        for line, text in texts(root / file):
            missing = [one for one in FILE.findall(text) if not tree.has_file(file, one)]
            missing += [one for _, one in QUOTED.findall(text) if not FILE.search(one) and not tree.knows(one)]
            wrong += [f"{file}:{line}: there is no {one}" for one in missing]
    return wrong


def untold(root: Path) -> list[str]:
    """A folder's README has each of its files, in the table of its room."""
    wrong = []
    for folder in TOLD_OF:
        page = (root / folder / "README.md").read_text("utf-8")
        _, *parts = ROOM.split(page)
        rooms = dict(zip(parts[::2], parts[1::2], strict=True))
        for path in sorted((root / folder).rglob("*.py")):
            room = rooms.get(path.parent.relative_to(root / folder).as_posix(), page)
            told = (one.rpartition("/")[2] for one in re.findall(r"`([^`]+\.py)`", room))
            if not path.name.startswith(("_", "test_")) and not any(fnmatch(path.name, one) for one in told):
                wrong.append(f"{path.relative_to(root).as_posix()}: {folder}/README.md does not tell of it")
    return wrong


def test_texts_name_what_is_there():
    assert drifted(ROOT) == []


def test_readmes_tell_of_every_file():
    assert untold(ROOT) == []


CODE = '''
"""One idea."""
from enum import Enum

from somewhere import Theirs

LIMIT = 3


class Base:
    def __init__(self) -> None:
        self.kept = 0


class Ours(Base):
    state: int

    def rule(self, size: int) -> None:
        getattr(self, "by_name")


class Half(Theirs): ...
'''


def plant(root: Path, texts: dict[str, str]) -> Path:
    for name, text in {"protocol/log/keeper.py": CODE, "protocol/machine.py": "", **texts}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


@pytest.mark.parametrize(
    "text",
    [
        *(
            "`gone.py`",
            "log/gone.py",
            "see protocol/log/gone.py",
            "`../gone.md`",
            "`wire/keeper.py`",
            "`gone.py` and `Ours`",
        ),
        *("`Gone`", "``Gone``", "`Ours.gone`", "`Ours.gone()`", "`Gone.rule`", "`gone`", "`keeper.GONE`", "`gone(1)`"),
    ],
)
@pytest.mark.parametrize("form", ["# {}", '"""{}"""', 'class A:\n    """Of it.\n\n    {}\n    """'])
def test_a_text_that_has_drifted_is_found(tmp_path, form, text):
    wrong = text.split(" ")[-1].strip("`") if " " in text and "and" not in text else text.split(" ")[0].strip("`")
    root = plant(tmp_path, {"protocol/log/a.py": form.format(text), "README.md": text})
    assert [one.split(": ", 1) for one in drifted(root)] == [
        [f"protocol/log/a.py:{4 if 'class' in form else 1}", f"there is no {wrong}"],
        ["README.md:1", f"there is no {wrong}"],
    ]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "`keeper.py`",
            "log/keeper.py",
            "`../machine.py`",
            "`design.md` 7",
            "`protocol/machine.py`",
            "mantamq/machine.py",
        ),
        *("`Ours`", "`Ours.state`", "`Ours.rule(1, 2)`", "`Ours.kept`", "`Half.theirs`", "`keeper.LIMIT`", "`by_name`"),
        *(
            "`finally`",
            "`broker add`",
            "`a`",
            "`Theirs`",
            "``x-match``",
            "```gone```",
            "`3.5`",
            "gone",
            "https://a.b/gone.md",
        ),
    ],
)
def test_a_text_that_holds_passes(tmp_path, text):
    assert drifted(plant(tmp_path, {"protocol/log/a.py": f"# {text}"})) == []


def test_a_file_that_no_readme_tells_of_is_found(tmp_path):
    table = (
        "`machine.py`\n| **`log/`** | **logs** |\n| `keeper.py`, `b.py` |\n| **`wire/`** | **frames** |\n| `a.py` |\n"
    )
    sources = dict.fromkeys(
        ["protocol/log/a.py", "protocol/log/b.py", "protocol/wire/a.py", "protocol/log/__init__.py"], ""
    )
    pages = {f"{folder}/README.md": table for folder in TOLD_OF}
    assert untold(plant(tmp_path, {**sources, **pages})) == [
        "protocol/log/a.py: protocol/README.md does not tell of it"
    ]


def test_what_is_let_pass_is_still_named():
    said = "\n".join(text for file in real().python() for _, text in texts(ROOT / file))
    assert [name for name in (*ELSEWHERE, *MAY_BE_NAMED) if name not in said] == []
