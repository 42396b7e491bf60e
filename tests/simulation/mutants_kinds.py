"""Bugs of kinds of queues, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

import heapq
from typing import Any

import pytest
from mantamq.protocol.queue import priority_levels, ring, state_policy, traits
from mantamq.protocol.queue.acquisitions import Acquisitions
from mantamq.protocol.queue.groups import MessageGroups
from mantamq.protocol.queue.last_value import LastValue
from mantamq.protocol.queue.parted import Parted
from mantamq.protocol.queue.priority import ByPriority
from mantamq.protocol.queue.ring import Ring
from mantamq.protocol.queue.shares import ByShares, Shares
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.turns import ByTurns
from mantamq.protocol.ranges import RangeSet, runs
from mantamq.protocol.replica import consumers
from mantamq.protocol.wire.events import Enqueue
from mantamq.protocol.wiring import arguments

from .planting import planted

Patch = pytest.MonkeyPatch


def what_is_held_stays_in_a_ring(patch: Patch) -> None:
    """The oldest that is available goes."""
    patch.setattr(ring, "in_order", lambda state: state.available)


def the_newest_goes_from_a_ring(patch: Patch) -> None:
    oldest = Ring._oldest

    def newest(self: Any, ranges: Any, over_count: int, over_size: int) -> list[tuple[int, int]]:
        last = self._state.available.last
        return [(last, last)] if over_size <= 0 and over_count == 1 else oldest(self, ranges, over_count, over_size)

    patch.setattr(Ring, "_oldest", newest)


def a_dropped_message_stays_with_its_holder(patch: Patch) -> None:
    patch.setattr(Acquisitions, "drop", lambda self, ranges: 0)


def a_ring_counts_what_is_rejected(patch: Patch) -> None:
    """A rejected message on its way takes the place of one that waits."""

    def applied(self: Any, event: Any, done: Any) -> None:
        state = self._state
        over_count = len(state.blobs) - self._max_count if self._max_count else 0
        if over_count > 0:
            oldest = self._oldest(self._in_order(), over_count, 0)
            done.dropped = [(first, last, False) for first, last in oldest]
            state.discard(oldest)

    patch.setattr(Ring, "applied", applied)


def a_ring_holds_twice_its_bytes(patch: Patch) -> None:
    begins = Ring.__init__

    def wide(self: Any, *given: Any) -> None:
        begins(self, *given)
        self._max_size *= 2

    patch.setattr(Ring, "__init__", wide)


def all_of_an_acquisition_is_lost_to_each(patch: Patch) -> None:
    """Two settlements of one delivery go as one event, and what is lost of it is told to both."""

    def common(some: list[int], others: list[int]) -> list[int]:
        acquisitions = {acquisition for acquisition, _, _ in runs(some)}
        return [n for run in runs(others) if run[0] in acquisitions for n in run]

    patch.setattr(consumers, "common", common)


def levels_are_forgotten_by_an_update(patch: Patch) -> None:
    """A copy that is brought up to date gives first in, first out."""
    patch.setattr(ByPriority, "restored", lambda self: None)


def what_came_back_is_of_the_lowest_level(patch: Patch) -> None:
    add = Parted.add

    def back(self: Any, first: int, last: int) -> None:
        for position in range(first, last + 1):
            if position in self._part_of:
                self._part_of[position] = 0
        add(self, first, last)

    patch.setattr(Parted, "add", back)


def a_message_without_a_priority_is_of_the_lowest(patch: Patch) -> None:
    level_rule = priority_levels.level_rule

    def lowest(priorities: int, max_priority: int) -> Any:
        rule = level_rule(priorities, max_priority)
        return rule and (lambda priority: rule(priority or 0))

    patch.setattr(traits, "level_rule", lowest)


def the_lowest_level_goes_first(patch: Patch) -> None:
    following = ByPriority.next

    def lowest(self: Any, place: Any) -> tuple[int, int] | None:
        if isinstance(place, int):
            return following(self, place)
        found = (level.at_or_after(place.get(n, 1)) for n, level in sorted(self._available.parts.items()))
        return next((one for one in found if one is not None), None)

    def lowest_of_several(self: Any, place: Any, most: int, taken: Any) -> list[tuple[int, int]]:
        levels = sorted(self._available.parts.items())
        return [(p, p) for n, level in levels for p, _ in level.since(place.get(n, 1)) if p not in taken][:most]

    patch.setattr(ByPriority, "next", lowest)
    patch.setattr(ByPriority, "several", lowest_of_several)


def a_ring_drops_the_oldest_of_any_level(patch: Patch) -> None:
    patch.setattr(ByPriority, "lowest", lambda self: heapq.merge(self._state.available, *self._state.acquired.values()))


def what_comes_back_is_the_last_value_again(patch: Patch) -> None:
    """A value that was held while a newer one came stands beside it."""
    applied = LastValue.applied

    def of_new_ones(self: Any, event: Any, done: Any) -> None:
        if type(event) is Enqueue:
            applied(self, event, done)

    patch.setattr(LastValue, "applied", of_new_ones)


def last_values_are_forgotten_by_an_update(patch: Patch) -> None:
    patch.setattr(LastValue, "restored", lambda self: setattr(self, "_of_key", {}))


def the_last_value_takes_the_place_of_the_one_before(patch: Patch) -> None:
    """The one before stays, and the new one goes."""
    discard = QueueState.discard

    def other(self: Any, ranges: Any) -> int:
        newest = self.next_position - 1
        if (
            len(ranges) == 1
            and ranges[0] != (newest, newest)
            and any(isinstance(policy, LastValue) for policy in self.policies)
        ):
            ranges = [(newest, newest)]
        return discard(self, ranges)

    patch.setattr(QueueState, "discard", other)


def what_goes_depends_on_what_came_together(patch: Patch) -> None:
    """What a ring with levels drops is decided by the batch, not by the message."""
    patch.setattr(state_policy, "one_by_one", lambda rule, guard=None: rule)


def a_group_is_whose_it_is_when_that_is_ordered(patch: Patch) -> None:
    """Until its acquire is ordered, what is delivered of a group keeps nobody from it."""
    patch.setattr(MessageGroups, "took", lambda self, subscription, parts: None)


def who_settles_one_gives_up_the_group(patch: Patch) -> None:
    let_go = MessageGroups._let_go

    def all_of_it(self: Any, ranges: Any) -> None:
        groups = {self._group_of[position] for first, last in ranges for position in range(first, last + 1)}
        for group in groups & self._owners.keys():
            self._owners[group].positions &= {p for first, last in ranges for p in range(first, last + 1)}
        let_go(self, ranges)

    patch.setattr(MessageGroups, "_let_go", all_of_it)


def one_value_has_all_turns(patch: Patch) -> None:
    patch.setattr(ByTurns, "behind", ByPriority.behind)
    patch.setattr(ByTurns, "several", ByPriority.several)


def a_level_has_no_share(patch: Patch) -> None:
    """As many go as there are."""
    patch.setattr(Shares, "room", lambda self, turn, most: most)


def the_next_owner_begins_the_turns_anew(patch: Patch) -> None:
    def idle(self: Any) -> None:
        self._turn, self._ahead = self._shares.first, 0

    patch.setattr(ByShares, "idle", idle)


def an_update_forgets_whose_turn_it_is(patch: Patch) -> None:
    restore = QueueState.restore

    def restored(self: Any, snapshot: Any) -> None:
        restore(self, snapshot)
        self.turn = None

    patch.setattr(QueueState, "restore", restored)


def two_are_given_the_same_turns(patch: Patch) -> None:
    """What another consumer has been given in the same moment is offered again."""
    several = ByTurns.several
    patch.setattr(ByTurns, "several", lambda self, place, most, taken: several(self, place, most, RangeSet()))


def what_came_back_has_no_turn(patch: Patch) -> None:
    patch.setattr(ByTurns, "back", lambda self, place, positions: place)


def what_is_held_elsewhere_is_of_no_group(patch: Patch) -> None:
    """The next owner of the lock gives a group to a consumer of its own, while another broker's has some of it."""
    hold = MessageGroups._hold

    def local(self: Any, position: int, subscription: Any) -> None:
        if subscription is not None:
            hold(self, position, subscription)

    patch.setattr(MessageGroups, "_hold", local)


def what_was_passed_over_is_not_looked_at_again(patch: Patch) -> None:
    patch.setattr(MessageGroups, "_freed", lambda self, group: None)


def groups_are_forgotten_by_an_update(patch: Patch) -> None:
    restored = MessageGroups.restored

    def nobodys(self: Any) -> None:
        restored(self)
        self._owners = {}

    patch.setattr(MessageGroups, "restored", nobodys)


def a_group_goes_on_behind_what_was_passed_over(patch: Patch) -> None:
    """What is new is offered before what was passed over."""
    following = MessageGroups.next

    def newest(self: Any, place: Any) -> tuple[int, int] | None:
        if isinstance(place, int):
            return following(self, place)
        return self._state.available.at_or_after(place.position) or following(self, place)

    patch.setattr(MessageGroups, "next", newest)


def each_maker_has_a_queue_of_its_own(patch: Patch) -> None:
    """What is spelled in other words is another definition."""
    patch.setattr(arguments, "plain", lambda settings, given: given)


ALL = planted(globals())
