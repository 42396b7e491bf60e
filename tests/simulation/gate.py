"""The mutation gate: every planted bug must be found within a budget of seeds, or a checker or the workload is too weak."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import (
    actives,
    alerts,
    alternates,
    auto_deletes,
    claims,
    closures,
    deaths,
    defaults,
    delays,
    disk_faults,
    disk_stories,
    duplicates,
    faults,
    figures,
    found_at,
    idle_queues,
    kinds,
    lifetimes,
    losses,
    made_names,
    memories,
    message_moves,
    moves,
    mutants,
    mutants_actives,
    mutants_alerts,
    mutants_arrivals,
    mutants_auto_delete,
    mutants_clients,
    mutants_closures,
    mutants_consumers,
    mutants_counts,
    mutants_deaths,
    mutants_delays,
    mutants_disks,
    mutants_dissolved,
    mutants_drains,
    mutants_duplicates,
    mutants_exchanges,
    mutants_failover,
    mutants_figures,
    mutants_flow,
    mutants_idle,
    mutants_kinds,
    mutants_lifetimes,
    mutants_limits,
    mutants_losses,
    mutants_made_names,
    mutants_membership,
    mutants_memory,
    mutants_message_moves,
    mutants_mixed,
    mutants_modify,
    mutants_named,
    mutants_no_local,
    mutants_own_queues,
    mutants_patterns,
    mutants_policies,
    mutants_queues,
    mutants_ranks,
    mutants_rearranged,
    mutants_recovered,
    mutants_recovery,
    mutants_redirects,
    mutants_relays,
    mutants_requests,
    mutants_routes,
    mutants_selectors,
    mutants_sequences,
    mutants_several,
    mutants_timeouts,
    mutants_truth,
    named_senders,
    no_locals,
    own_queues,
    patterns,
    policies,
    ranks,
    rare_stories,
    redirects,
    relays,
    requests,
    selectors,
    several_keys,
    stops,
    timeouts,
    workload,
)
from .explore import STORIES, Explorer
from .model import Violation
from .workload import play

BUDGET = 300
LOSSES = frozenset(mutants_losses.ALL)
"""Looked for in the stories of `losses.py`."""
STORED = frozenset(mutants_disks.ALL | mutants_queues.ALL | mutants_recovered.ALL) | {
    mutants_truth.what_has_come_to_another_queue_fails_with_one_that_is_gone.__name__,  # seen in such a story only
    mutants_truth.answers_do_not_wait_for_the_wiring_before_them.__name__,
    mutants_membership.who_is_back_half_gone_stays_so.__name__,
    mutants_membership.who_is_told_all_is_told_the_voters_of_now.__name__,
    mutants_membership.who_is_taken_out_when_it_is_back_is_not_told.__name__,
    mutants_membership.who_begins_a_queue_that_it_is_out_of_goes_on.__name__,
    mutants_flow.who_is_back_in_part_is_not_counted.__name__,
}
"""Looked for in stories whose brokers have stores; the others, in stories without."""

PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], bool | None]] = {
    **{name: (plant, None) for name, plant in mutants_losses.ALL.items()},
    **{
        name: (plant, None)
        for module in (
            mutants,
            mutants_actives,
            mutants_auto_delete,
            mutants_delays,
            mutants_clients,
            mutants_closures,
            mutants_drains,
            mutants_consumers,
            mutants_idle,
            mutants_kinds,
            mutants_lifetimes,
            mutants_made_names,
            mutants_message_moves,
            mutants_mixed,
            mutants_membership,
            mutants_memory,
            mutants_modify,
            mutants_named,
            mutants_deaths,
            mutants_duplicates,
            mutants_dissolved,
            mutants_no_local,
            mutants_own_queues,
            mutants_patterns,
            mutants_policies,
            mutants_redirects,
            mutants_ranks,
            mutants_rearranged,
            mutants_relays,
            mutants_requests,
            mutants_routes,
            mutants_selectors,
            mutants_several,
            mutants_timeouts,
            mutants_truth,
            mutants_counts,
            mutants_alerts,
            mutants_arrivals,
            mutants_figures,
            mutants_exchanges,
            mutants_sequences,
        )
        for name, plant in module.ALL.items()
    },
    **{
        name: (plant, True)
        for module in (
            mutants_disks,
            mutants_failover,
            mutants_flow,
            mutants_limits,
            mutants_queues,
            mutants_recovered,
            mutants_recovery,
        )
        for name, plant in module.ALL.items()
    },
}
PLANTED |= {name: (PLANTED[name][0], False) for name in rare_stories.WITHOUT_FAULTS}
"""Name -> (how to plant it, whether it is looked for among the stories with faults only; None: among all)."""


SMALL_WORLDS = {
    "suffix_of_an_older_sequencer_is_acknowledged": 6,
    "conflicting_suffix_stays": 5,
    "longest_log": 6,
    "count_old_ballot": 5,
}
"""Bugs that need logs which part are looked for in this story of `explore.py` first."""
STATES = 100_000
_SHORT = (workload, "OPERATIONS", 200)
_SHARED: list[tuple[ModuleType | type, str, Any]] = [
    (kinds, "KINDS", 1.0),
    (kinds, "LIMITS", ({},)),
    (kinds, "FLOWS", ({},)),
    (kinds, "OTHERS", ({"priorities": 3},)),
    (kinds, "SHARES", ({"fairshare": 1},)),
]
_MEMORY: list[tuple[ModuleType | type, str, Any]] = [(memories, "SHARE", 1.0), (moves, "SHARE", 0.0)]
_DYING: list[tuple[ModuleType | type, str, Any]] = [(deaths, "DYING", 1.0), (kinds, "KINDS", 1.0)]
_TWICE: list[tuple[ModuleType | type, str, Any]] = [(duplicates, "STORIES", 1.0), (duplicates, "SHARE", 1.0)]
_AS_TOLD: list[tuple[ModuleType | type, str, Any]] = [(closures, "STORIES", closures.STORIES)]
_LEAVING: list[tuple[ModuleType | type, str, Any]] = [
    (moves, "SHARE", 1.0),
    (moves, "RATE", 0.1),
    (disk_stories, "LASTING", 1.0),
    (disk_stories, "ALIKE", 1.0),
    (disk_faults, "KINDS", ["blackout"]),
    (faults, "RATE", 0.15),
]
_FORGOTTEN = [*_LEAVING, (moves, "FORGOTTEN", 1.0), (faults, "KINDS", ["link"])]
_RISING: list[tuple[ModuleType | type, str, Any]] = [(delays, "RETRYING", 1.0), (delays, "RISING", 1.0)]
FOCUS: dict[str, list[tuple[ModuleType | type, str, Any]]] = {
    **{name: [(message_moves, "STORIES", 1.0), (delays, "STORIES", 1.0), *_TWICE] for name in mutants_mixed.ALL},
    **dict.fromkeys(mutants_deaths.ALL, _DYING),
    "who_comes_past_it_leaves_what_was_rejected": [(faults, "RATE", 0.15)],
    **dict.fromkeys(mutants_memory.ALL, _MEMORY),
    **dict.fromkeys(mutants_duplicates.ALL, _TWICE),
    **{name: [(auto_deletes, "STORIES", 1.0)] for name in mutants_auto_delete.ALL},
    "what_is_emptied_later_stays": [
        (auto_deletes, "STORIES", 1.0),
        (auto_deletes, "RATE", 0.3),
        (auto_deletes, "IF_EMPTY", 1.0),
        (auto_deletes, "PURGE", 0.2),
    ],
    **{name: [(idle_queues, "STORIES", 1.0)] for name in mutants_idle.ALL},
    **{name: [(timeouts, "STORIES", 1.0)] for name in mutants_timeouts.ALL},
    **{name: [(lifetimes, "STORIES", 1.0)] for name in mutants_lifetimes.ALL},
    "what_was_acquired_before_it_could_expire_is_forgotten": [],
    **{name: [(delays, "STORIES", 1.0)] for name in mutants_delays.ALL},
    "what_came_back_waits_as_long_each_time": _RISING,
    "no_delay_is_long_enough": _RISING,
    **{name: [(made_names, "STORIES", 1.0)] for name in mutants_made_names.ALL},
    **{name: [(closures, "STORIES", 1.0), (closures, "RATE", 0.1)] for name in mutants_closures.ALL},
    "answers_do_not_wait_for_the_wiring_before_them": _AS_TOLD,
    "who_is_back_half_gone_stays_so": _FORGOTTEN,
    "who_is_taken_out_when_it_is_back_is_not_told": _FORGOTTEN,
    "who_begins_a_queue_that_it_is_out_of_goes_on": _FORGOTTEN,
    "who_is_told_all_is_told_the_voters_of_now": [*_LEAVING, (faults, "KINDS", ["blackout"])],
    "who_is_back_in_part_is_not_counted": _AS_TOLD,
    **{name: [(message_moves, "STORIES", 1.0)] for name in mutants_message_moves.ALL},
    "none_is_said_of_a_move_while_another_broker_moves_some": [
        (message_moves, "STORIES", 1.0),
        (message_moves, "RATE", 0.6),
        (message_moves, "CUT", 0.9),
    ],
    **{name: [(named_senders, "STORIES", 1.0)] for name in mutants_named.ALL},
    "who_comes_back_goes_on_in_another_queue_of_the_name": [],
    **{name: [(own_queues, "STORIES", 1.0)] for name in mutants_own_queues.ALL},
    "a_broker_that_has_not_heard_of_it_refuses_nobody": [(own_queues, "STORIES", 1.0), (own_queues, "RATE", 0.5)],
    **{name: [(policies, "STORIES", 1.0)] for name in (*mutants_policies.ALL, *mutants_rearranged.ALL)},
    **{name: [(patterns, "STORIES", 1.0)] for name in mutants_patterns.ALL},
    **{name: [(requests, "STORIES", 1.0)] for name in mutants_requests.ALL},
    **{name: [(redirects, "STORIES", 1.0)] for name in mutants_redirects.ALL},
    "consumers_of_a_broker_that_is_out_are_not_missed": [
        (auto_deletes, "STORIES", 1.0),
        (faults, "KINDS", faults.KINDS + ["broker"] * 12),
    ],
    "a_drain_takes_off_what_is_gone": [
        (kinds, "KINDS", 1.0),
        (kinds, "LIMITS", ({},)),
        (kinds, "OTHERS", ({"last_value_key": "c"},)),
        (stops, "STORIES", 1.0),
    ],
    "what_is_said_again_is_said_without_its_keys": [
        (several_keys, "STORIES", 1.0),
        (several_keys, "SHARE", 0.9),
        (workload, "CUT", 0.4),
    ],
    "each_key_that_finds_nothing_asks_the_alternate": [
        (alternates, "SENT_TO", ((alternates.PICKY, None), (alternates.WIDE, None))),
        (several_keys, "STORIES", 1.0),
    ],
    "what_is_sent_meanwhile_completes": [(workload, "MANAGED", 0.25), (workload, "CONDITIONAL", 0.25)],
    "who_has_just_left_held_nothing": [
        (kinds, "KINDS", 0.0),
        (selectors, "SHARE", 0.0),
        (workload, "BROKERS", ("b1",)),
        (workload, "ALONE", 1.0),
        (workload, "CUT", 0.3),
        (faults, "KINDS", ["sequencer", "pause"]),
        (faults, "RATE", 0.2),
    ],
    "a_message_that_is_too_large_for_a_ring_comes_in": [
        (kinds, "KINDS", 1.0),
        (kinds, "LIMITS", ({"max_size": 120},)),
    ],
    "what_destroys_itself_is_not_deleted": [(kinds, "DESTROYING", 1.0)],
    "who_holds_some_keeps_it_from_what_destroys_itself": [(kinds, "DESTROYING", 1.0), (workload, "MANAGED", 0.25)],
    "what_has_destroyed_itself_takes_more": [(kinds, "DESTROYING", 1.0), (workload, "MANAGED", 0.25)],
    "one_broker_knows_no_default_limit": [(defaults, "SHARE", 1.0)],
    "the_default_limit_is_above_one_that_is_named": [(defaults, "SHARE", 1.0), (kinds, "KINDS", 1.0)],
    "groups_are_forgotten_by_an_update": [
        (kinds, "KINDS", 1.0),
        (kinds, "OTHERS", ({"group_key": "c"},)),
        (faults, "KINDS", faults.KINDS + ["broker"] * 6),
    ],
    "what_was_passed_over_is_not_looked_at_again": [
        (kinds, "KINDS", 1.0),
        (kinds, "LIMITS", ({},)),
        (kinds, "FLOWS", ({},)),
        (kinds, "OTHERS", ({"group_key": "c"},)),
    ],
    "a_level_has_no_share": _SHARED,
    "the_next_owner_begins_the_turns_anew": _SHARED,
    "an_update_forgets_whose_turn_it_is": _SHARED,
    "nobody_takes_over_what_was_under_way": [
        (relays, "SHARE", 1.0),
        (faults, "KINDS", faults.KINDS + ["broker"] * 12),
    ],
    "last_batch_is_not_written_again": [(faults, "RATE", 0.2), (disk_faults, "KINDS", ["power"]), _SHORT],
    "only_the_last_broker_is_named": [
        (workload, "ALONE", 1.0),
        (workload, "CUT", 0.4),
        (faults, "KINDS", ["pause", "isolate", "link", "broker"]),
        (faults, "RATE", 0.15),
    ],
    "lost_drop_report_stays_lost": [
        (workload, "MANAGED", 0.25),
        (faults, "KINDS", faults.KINDS + ["link"] * 10 + ["isolate"] * 6),
    ],
    "given_up_and_not_told": [
        (faults, "KINDS", faults.KINDS + ["slow"] * 10),
        (faults, "SLOW_US", (12_000_000,)),
        (faults, "SLOW_BATCH_US", (400_000,)),
    ],
    "given_up_beside_one_that_is_not_heard": [(faults, "KINDS", faults.BESIDE), (moves, "SHARE", 0.0)],
    "repeats_of_the_dead_are_done_again": [(faults, "KINDS", faults.KINDS + faults.OFTEN)],
    "what_goes_back_unseen_is_told_as_lost": [
        (kinds, "KINDS", 1.0),
        (kinds, "LIMITS", ({"max_count": 3},)),
        (kinds, "OTHERS", ({},)),
        (kinds, "FLOWS", ({},)),
        (stops, "STORIES", 1.0),
    ],
    "sends_on_when_told_not_to": [(workload, "FEW", 1.0)],
    "what_was_not_sent_is_forgotten": [(workload, "FEW", 1.0)],
    "the_next_broker_has_no_room_either": [(workload, "FEW", 1.0)],
    "who_may_not_send_is_not_read": [(workload, "FEW", 1.0)],
    "nobody_hears_that_there_is_room": [(workload, "FEW", 1.0)],
    "log_of_an_earlier_life_is_not_read": [
        (disk_stories, "LASTING", 1.0),
        (disk_stories, "ALIKE", 1.0),
        (disk_faults, "KINDS", ["blackout"]),
        (faults, "KINDS", ["link"]),
    ],
    "base_is_moved_before_the_move_is_flushed": [(faults, "RATE", 0.1), (disk_stories, "ALIKE", 1.0), _SHORT],
    "a_checkpoint_stands_for_what_is_not_applied": [(disk_stories, "ALIKE", 1.0), _SHORT],
    "numbers_are_not_stored": [(disk_stories, "ALIKE", 1.0), _SHORT],
    "applied_before_flush": [_SHORT],
    "a_life_is_used_again": [(faults, "RATE", 0.2), (disk_faults, "KINDS", ["power"]), _SHORT],
    "an_emptied_disk_votes": [(faults, "RATE", 0.2), (disk_faults, "KINDS", ["power", "empty_disk"]), _SHORT],
    "the_stamp_is_not_weighed": [(kinds, "STAMPED", 1.0)],
    **{name: [(alerts, "SHARE", 1.0)] for name in mutants_alerts.ALL},
    **{name: [(figures, "SHARE", 1.0)] for name in mutants_figures.ALL},
    "two_are_given_the_same_turns": [
        (kinds, "KINDS", 1.0),
        (kinds, "LIMITS", ({},)),
        (kinds, "FLOWS", ({},)),
        (kinds, "OTHERS", ({"fair_key": "c"},)),
    ],
    **{name: [(claims, "STORIES", 1.0), (workload, "CUT", 0.3)] for name in mutants_consumers.ALL},
    "what_is_known_of_the_wiring_is_not_said": [(workload, "CUT", 0.4)],
    **{name: [(ranks, "STORIES", 1.0)] for name in mutants_ranks.ALL},
    **{name: [(no_locals, "STORIES", 1.0)] for name in mutants_no_local.ALL},
    **{name: [(actives, "STORIES", 1.0), (workload, "CUT", 0.2)] for name in mutants_actives.ALL},
    **rare_stories.FOCUS,
}
"""Bugs that need rare moments are looked for in stories with more of them: other shares than usual."""
UNFOUND = frozenset(
    {
        "lost_drop_report_stays_lost",
        "nobody_says_that_what_is_waited_for_is_deleted",
        "orphans_stay",
        "who_comes_back_goes_on_in_another_queue_of_the_name",
        "who_has_just_left_held_nothing",
        "who_is_back_in_part_is_not_counted",
    }
)
"""Bugs that were found, and have not been since stories have more in them: they need stories of their own. `make simulate`
looks for them, and says so where it finds none; `make test` does not wait for that."""
BROKEN = ("TypeError", "AttributeError", "NameError")
"""The exceptions of a planted bug that no longer fits the code it is planted in."""


_sound_stories: set[str] = set()
"""Of this process: stories in which nothing is wrong."""


class Found(NamedTuple):
    """How a planted bug fared: where it was found, "" if it was not, and what was wrong then."""

    name: str
    where: str
    wrong: str


def find(name: str, budget: int = BUDGET) -> Found:
    """Plant a bug and look for it."""
    plant, faulty = PLANTED[name]
    with pytest.MonkeyPatch.context() as focus, pytest.MonkeyPatch.context() as patch:
        focus.setattr(closures, "STORIES", 0.0)  # so that other bugs are found in the stories where they were
        for module, share, value in FOCUS.get(name, ()):
            focus.setattr(module, share, value)
        plant(patch)
        if name in SMALL_WORLDS:
            story = SMALL_WORLDS[name]
            try:
                for _ in Explorer(STORIES[story]).run(STATES):
                    pass
            except Violation as violation:
                return Found(name, f"small world {story}", str(violation).splitlines()[0])
        for seed in found_at.seeds(name, budget):
            wrong = _wrong(name, seed, faulty)
            if wrong.strip().rpartition("\n")[2].startswith(BROKEN):
                raise RuntimeError(f"{name} is found at seed {seed} by itself, not by a checker: mend it. {wrong}")
            if wrong and _sound(name, seed, faulty, patch):
                return Found(name, f"seed {seed}", wrong.strip().splitlines()[-1])
    return Found(name, "", "")


def _wrong(name: str, seed: int, faulty: bool | None) -> str:
    if name in LOSSES or name in mutants_disks.OF_POWER:
        return losses.play(seed, stored=name in STORED)
    return play(seed, faulty=faulty, stored=name in STORED).wrong


def _sound(name: str, seed: int, faulty: bool | None, patch: pytest.MonkeyPatch) -> bool:
    """Whether nothing is wrong without the planted bug: otherwise it is not what was found. Many are found in one story,
    which is played once."""
    patch.undo()
    story = told_in(name, seed)
    if story in _sound_stories:
        return True
    wrong = _wrong(name, seed, faulty)
    if wrong:
        raise RuntimeError(f"seed {seed} is wrong with no bug planted: mend that first. {wrong}")
    _sound_stories.add(story)
    return True


def told_in(name: str, seed: int) -> str:
    """All that makes the story of a seed in which a planted bug is looked for what it is, but for the bug."""
    focus = [(module.__name__, share, value) for module, share, value in FOCUS.get(name, ())]
    lost = name in LOSSES or name in mutants_disks.OF_POWER
    return repr((seed, PLANTED[name][1], name in STORED, lost, focus))


def by_story() -> list[str]:
    """All planted bugs, those side by side that are found in one story."""
    table = found_at.read()
    return sorted(PLANTED, key=lambda name: (told_in(name, table.get(name, 1)), name))


def run(console: Console, jobs: int, remember: bool = False) -> bool:
    """Look for all of them; whether all were found. Where they were is remembered, if that is wanted."""
    found: list[Found] = []
    columns = (TextColumn("planted bugs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        multiprocessing.get_context("spawn").Pool(jobs) as pool,
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("", total=len(PLANTED))
        for result in pool.imap_unordered(find, by_story()):
            found.append(result)
            progress.advance(task)
            if not result.where:
                console.print(f"the planted bug {result.name} was not found in {BUDGET} seeds")
    caught = sum(result.where != "" for result in found)
    console.print(f"planted={len(found)} caught={caught}")
    if remember:
        at = {result.name: result.where.removeprefix("seed ") for result in found}
        found_at.write({name: int(seed) for name, seed in at.items() if seed.isdecimal()})
    return caught == len(found)
