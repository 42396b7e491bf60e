"""Every call to the file system fails once, in every way: nothing acknowledged is lost, nothing else half there."""

from __future__ import annotations

import os
from random import Random

import pytest
from mantamq.store.log.log import Log

from ..disks import Fault, PowerCut, SimulatedFiles
from .script import FOLDER, Story, Wrong

GROUPS = 200
EVERY = 1 if os.environ.get("MANTA_LONG") else 41
"""Of the calls each so many-th one fails; all of them with MANTA_LONG=1, which takes some minutes."""


def count_calls(seed: int) -> int:
    files = SimulatedFiles(seed)
    story = Story(files, seed)
    story.create()
    for _ in story.steps(GROUPS):
        pass
    assert len(story.account.groups) == GROUPS
    assert story.log and story.log.base > 20 * 32 * 1024, "containers have gone round"
    return files.calls


def fail_at(seed: int, call: int, fault: Fault, groups: int = GROUPS) -> bool:
    """Tell a story in which one call fails, and what comes of it. Returns whether the failure came."""
    files = SimulatedFiles(seed * 1_000_003 + call)
    random = Random(call)
    story = Story(files, seed)
    files.fail(call, fault)
    died = live(story, groups)
    for _ in range(3):  # what recovery has made is put to the test as well, and so is recovery that fails
        restart(files, random)
        if random.random() < 0.5:
            files.fail(random.randrange(60), random.choice(list(Fault)))
            try:
                reopen(story)
            except (PowerCut, OSError):
                restart(files, random)
                reopen(story)
        else:
            reopen(story)
        files.heal()
        live(story, random.randrange(4))
    files.crash()
    reopen(story)
    return died


def restart(files: SimulatedFiles, random: Random) -> None:
    """The process dies, or the power goes."""
    files.heal()
    if random.random() < 0.5:
        files.crash()
    else:
        files.kill()


def live(story: Story, groups: int) -> bool:
    """Live on until something fails. A log that has failed is dead."""
    try:
        if story.log is None:
            story.create()
        for _ in story.steps(groups):
            pass
    except PowerCut:
        return True
    except OSError as error:
        if story.log:
            is_dead(story.log, error)
        return True
    return False


def is_dead(log: Log, error: OSError) -> None:
    """Each call says again what the first one said."""
    for call in (log.sync, log.prove, log.make_spare, lambda: log.write([], 0), lambda: log.free_below(0)):
        try:
            call()
        except OSError as again:
            if again is not error:
                raise Wrong(f"a log that is dead of {error!r} says {again!r}") from again
        else:
            raise Wrong(f"a log that is dead of {error!r} goes on")


def reopen(story: Story) -> None:
    if story.account.groups or any(name[0] == "0" for name in listed(story)):
        story.open()
    else:  # it was not even made
        story.create()


def listed(story: Story) -> list[str]:
    return story.files.list(FOLDER) if story.files.exists(FOLDER) else []


@pytest.mark.parametrize("fault", list(Fault))
def test_every_call_fails(fault):
    seed = 1
    calls = count_calls(seed)
    for call in range(list(Fault).index(fault) % EVERY, calls, EVERY):
        try:
            fail_at(seed, call, fault)
        except Wrong as wrong:
            raise AssertionError(f"seed {seed}, call {call} of {calls}, {fault}: {wrong}") from wrong
