"""Every text file here is one story: commands and what must happen. MANTA_RECORD=1 writes what does happen instead;
the diff is the review."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .runner import Scenario, replay

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_story_goes_as_told(path):
    found = replay(path)
    if os.environ.get("MANTA_RECORD"):
        path.write_text(found)
    assert found == path.read_text()


def test_there_are_stories():
    assert FILES


@pytest.mark.parametrize(
    "command", ["show Prepared", "start sequencer3", "join b5", "limit bytes 10", "limit entries 10"]
)
def test_what_the_cluster_cannot_do_is_refused(command):
    with pytest.raises(ValueError):
        Scenario().play([command])
