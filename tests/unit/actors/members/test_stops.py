"""How a member bears it that whoever stops the cluster ends in the middle, and another one begins anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from live_cluster import own, until
from mantamq.actors.config import MemberConfig
from mantamq.actors.members.member import MemberActor
from mantamq.protocol.machine import Stop, Stopped, Yield, Yielded
from mantamq.protocol.timing import Timing


class ToyMachine:
    """Keeps something on disk. `heard`: what it was told of stops."""

    stored = True

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def step(self, input: Any) -> list[Any]:
        if type(input) not in (Yield, Stop):
            return []
        closed = any(type(one) is Stop for one in self.heard)
        self.heard.append(input)
        return [] if closed else [Yielded() if type(input) is Yield else Stopped()]  # a closed one says no more


class Member(MemberActor):
    """Attributes: left: how often its process has ended."""

    left = 0

    def _leave(self) -> None:
        self.left += 1


@pytest.fixture
async def member() -> AsyncIterator[Member]:
    one = Member("b1")
    timing = Timing(
        supervisor_fresh_ms=350, supervisor_round_ms=150, supervisor_heard_ms=400, supervisor_silent_ms=500,
        supervisor_rank_ms=10, stop_ms=600,
    )  # fmt: skip
    one._run(ToyMachine(), MemberConfig(credentials=own("b1"), bind="127.0.0.1", timing=timing))
    yield one
    await one.stop()
    if one._left is not None:
        one._left.cancel()


async def test_one_that_is_closed_has_nothing_to_give_back(member: Member) -> None:
    async with asyncio.timeout(5):
        await member.give_back()
        await member.close("stop-1")
        await member.give_back()
        await member.close("stop-2")


async def test_the_time_to_be_ended_counts_from_the_last_stop(member: Member) -> None:
    await member.close("stop-1")
    first = member._left
    await member.close("stop-2")
    assert first is not None and first.cancelled() and member._left is not first
    await until(lambda: member.left > 0)
    assert member.left == 1


@pytest.mark.parametrize("order", ["hush", "stop"])
async def test_a_process_that_nobody_ends_behind_its_stop_ends_by_itself(member: Member, order: str) -> None:
    """Neither does it serve any more, nor is there anybody who would replace it."""
    member._fenced = True
    await member.close("stop-1")
    await getattr(member, order)()
    await until(lambda: member.left > 0)
    assert member.left == 1


@pytest.mark.parametrize("order", ["hush", "stop"])
async def test_also_one_that_keeps_nothing_on_disk(member: Member, order: str) -> None:
    member._fenced = True
    await getattr(member, order)()
    await until(lambda: member.left > 0)


async def test_one_without_a_process_of_its_own_is_stopped_and_that_is_all(member: Member) -> None:
    await member.close("stop-1")
    await member.stop()
    assert member._left is not None and member._left.cancelled()
