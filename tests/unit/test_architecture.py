"""What docs/architecture.md names is there: its files, its links, its actors, its frames, events and classes."""

from __future__ import annotations

import re
from pathlib import Path

from mantamq.protocol.wire.events import AnyEvent
from mantamq.protocol.wire.kinds import KIND_OF

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"


def place(path: str) -> Path:
    """Where a file is that the page names."""
    return ROOT / path if path.startswith(("actors/", "client/", "management/")) else ROOT / "protocol" / path


def missing(text: str) -> list[str]:
    """Files that a page of docs/ names and that are not there."""
    named = {place(path) for path in re.findall(r"`([\w/]+\.py)`", text)}
    linked = {PAGE.parent / path for path in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in path}
    return sorted(str(path) for path in named | linked if not path.exists())


def classes(text: str) -> set[str]:
    """The classes of the files that a page names."""
    files = [place(path) for path in re.findall(r"`([\w/]+\.py)`", text)]
    return {name for file in files for name in re.findall(r"^class (\w+)", file.read_text("utf-8"), re.M)}


def test_every_file_of_the_architecture_is_there():
    text = PAGE.read_text("utf-8")
    assert missing(text) == []
    assert len(re.findall(r"`[\w/]+\.py`", text)) > 40


def test_every_actor_frame_and_event_has_that_name():
    text = PAGE.read_text("utf-8")
    actors = re.findall(r"\| `(\w+)` \| `([\w/]+\.py)` \|", text)
    assert len(actors) == 8
    for actor, path in actors:
        assert f"class {actor}" in place(path).read_text("utf-8")
    kinds = {kind.__name__ for kind in (*KIND_OF, *AnyEvent.__args__)}
    named = set(re.findall(r"`([A-Z]\w+)`", text)) - {actor for actor, _ in actors}
    assert named - kinds - classes(text) == set()


def test_a_file_that_has_gone_is_noticed():
    assert missing("see `gone.py` and [that](nowhere.md)") == [
        str(PAGE.parent / "nowhere.md"),
        str(ROOT / "protocol/gone.py"),
    ]
