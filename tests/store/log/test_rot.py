"""Bits that turn over, files that lose their end: told as damage, never served, never cut as a torn tail."""

from __future__ import annotations

import os
from random import Random

import pytest
from mantamq.protocol.errors import StoreError
from mantamq.store.log.recovery import open_log

from ..disks import SimulatedFiles
from .rot import Rest, some_harm
from .script import CONTAINER_BYTES, FOLDER

LONG = bool(os.environ.get("MANTA_LONG"))
EVERY = 1 if LONG else 197
"""Of the bytes of a log each so many-th one is hurt; all of them with MANTA_LONG=1, which takes some minutes."""


@pytest.fixture(scope="module", params=[True, False], ids=["proven", "unproven"])
def rest(request) -> Rest:
    return Rest.after(5, 12, request.param)


def containers(rest: Rest) -> list[str]:
    files = SimulatedFiles()
    files.put_back(rest.image)
    return [f"{FOLDER}/{name}" for name in files.list(FOLDER) if name[0] == "0"]


def test_nothing_is_hurt(rest):
    assert not rest.judge(lambda files: None)
    assert len(rest.rows) > 20


def test_every_byte_turns_over(rest):
    told = 0
    for path in containers(rest):
        for offset in range(0, CONTAINER_BYTES, EVERY):
            told += rest.judge(lambda files, path=path, offset=offset: files.flip(path, offset, offset % 8))
    assert told > 0


def test_every_length(rest):
    told = 0
    for path in containers(rest):
        for length in range(0, CONTAINER_BYTES, EVERY * 3):
            told += rest.judge(lambda files, path=path, length=length: files.shorten(path, length))
    assert told > 0


def test_a_container_is_missing(rest):
    *older, newest = containers(rest)
    assert rest.judge(lambda files: files.unlink(older[-1])) == (len(older) > 0)


def test_no_header_is_left(rest):
    def harm(files: SimulatedFiles) -> None:
        for path in containers(rest):
            files.flip(path, 40, 0)

    assert rest.judge(harm)
    files = SimulatedFiles()
    files.put_back(rest.image)
    harm(files)
    before = files.list(FOLDER)
    with pytest.raises(StoreError, match="store-damaged"):
        open_log(files, FOLDER)
    assert files.list(FOLDER) == before, "nothing was changed"


@pytest.mark.parametrize("seed", [1293, 1320, 1426, *range(400 if LONG else 60)])  # the first: a group's end is missing
def test_any_harm_to_any_log(seed):
    rest = Rest.after(seed, 30, seed % 2 == 0)
    random = Random(seed)
    for _ in range(20):
        rest.judge(lambda files: some_harm(random, files))
