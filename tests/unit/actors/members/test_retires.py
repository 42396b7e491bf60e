"""A member whose part is over ends its process by a call that waits for just that, if there is one."""

from __future__ import annotations

import asyncio

import pytest
from mantamq.actors.members import ending
from mantamq.actors.members.member import MemberActor
from mantamq.actors.members.shell import DiskFailed, Retired


class Exited(BaseException):
    """What Ray raises to end an actor."""


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    found: list[BaseException] = []
    monkeypatch.setattr(ending, "fence", lambda parent, name: None)
    monkeypatch.setattr(ending, "leave", found.append)
    monkeypatch.setattr(ending, "at_the_latest", lambda code: None)

    def quit() -> None:
        raise Exited

    monkeypatch.setattr(ending, "quit", quit)
    return found


async def lingering(member: MemberActor) -> asyncio.Task[str]:
    task = asyncio.get_running_loop().create_task(member.linger())
    await asyncio.sleep(0)
    return task


async def test_it_ends_in_the_calls_that_wait_for_its_end(left: list[BaseException]) -> None:
    """By a call of its own Ray would wait a second for the answer to that. One that returned would be taken for a
    death, and its process be killed while it ends; which caller is there yet, nobody knows here."""
    member = MemberActor("b1.r0", fenced=True)
    first, second = await lingering(member), await lingering(member)
    member._broke(Retired("its link is gone"))
    ends = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(end) for end in ends] == [Exited, Exited] and not left
    assert not member._watchers


async def test_one_that_is_told_to_quit_ends_in_all_its_calls(left: list[BaseException]) -> None:
    member = MemberActor("b1.r0", fenced=True)
    watching = await lingering(member)
    ends = await asyncio.gather(watching, member.quit(), return_exceptions=True)
    assert [type(end) for end in ends] == [Exited, Exited] and not left


async def test_where_nobody_waits_for_it_it_ends_by_itself(left: list[BaseException]) -> None:
    member = MemberActor("b1.r0", fenced=True)
    (await lingering(member)).cancel()
    await asyncio.sleep(0)
    member._broke(retired := Retired("its link is gone"))
    assert left == [retired]


async def test_a_disk_that_fails_is_told_and_no_good_end(left: list[BaseException]) -> None:
    member = MemberActor("b1.store", fenced=True)
    told = await lingering(member)
    member._broke(failed := DiskFailed("/data/b1: errno 5"))
    assert await told == "/data/b1: errno 5" and left == [failed]
