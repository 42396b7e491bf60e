"""Stories that are made for one planted bug each: of all that may happen, what its moment needs, and little besides.

In the usual stories so much happens that these moments became too rare to be met. Each list gives shares and choices of
other modules another value, for the stories of that bug only (`gate.find`).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from mantamq.protocol.limits import DEFAULT
from msgspec.structs import replace

from . import (
    actives,
    alternates,
    boxes,
    checkers,
    claims,
    deaths,
    delays,
    disk_faults,
    disk_stories,
    faults,
    kinds,
    memories,
    message_moves,
    modifies,
    moves,
    policies,
    ranks,
    redirects,
    selectors,
    workload,
)

Choices = list[tuple[ModuleType | type, str, Any]]


def _of_one_kind(limits: dict[str, Any], others: dict[str, Any] | None = None) -> Choices:
    """Each queue that is limited is so, and each other one is of that kind, plain unless it is said."""
    return [
        (kinds, "KINDS", 1.0),
        (kinds, "LIMITS", (limits,)),
        (kinds, "FLOWS", (limits,)),
        (kinds, "OTHERS", (others or {},)),
        (kinds, "DESTROYING", 0.0),
    ]


_PLAIN: Choices = [(kinds, "KINDS", 0.0), (delays, "STORIES", 0.0)]
_NOTED: Choices = [(modifies, "SHARE", 1.0), (modifies, "INSTEAD", 1.0), (delays, "STORIES", 0.0)]
_VERDICTS: Choices = [  # what waits for its queue's word waits in a process that dies; raw clients do not come back
    *_of_one_kind({"flow_stop_count": 3}),
    (workload, "USERS", (0.0,)),
    (workload, "CUT", 0.0),
    (faults, "KINDS", ["replica"]),
    (faults, "RATE", 0.15),
]
FOCUS: dict[str, Choices] = {
    "notes_have_no_end": [*_NOTED, (modifies, "NOTES", ({"a": "x" * 3_000}, {"c": "y" * 6_000}))],
    "what_is_behind_what_is_undeliverable_is_passed_over": [
        *_NOTED,
        (modifies, "NOTES", ({},)),
        (kinds, "KINDS", 0.0),
        (selectors, "SHARE", 0.0),
        (workload, "USERS", (1.0,)),
        (workload, "OPERATIONS", 1_000),
    ],
    "the_alternate_of_an_alternate_is_not_asked": [
        (alternates, "SENT_TO", ((alternates.WIDE, None),)),
        (workload, "USERS", (1.0,)),
    ],
    "an_update_lacks_what_is_consumed_meanwhile": [  # updates of many pieces, of queues that count bytes
        *_of_one_kind({"max_size": 2_000}),
        (workload, "DEFAULT", replace(DEFAULT, update_chunk_messages=1, update_chunks=1)),
        (workload, "FEW", 0.0),
        (disk_stories, "LASTING", 0.0),
        (faults, "KINDS", ["replica"]),
        (faults, "RATE", 0.15),
        (checkers, "COMPARE_SHARE", 0.5),
    ],
    "a_claim_outlives_its_broker": [
        (claims, "STORIES", 1.0),
        (claims, "SHARE", 1.0),
        (claims, "RATE", 0.2),
        (actives, "STORIES", 0.0),
        (workload, "USERS", (0.0,)),
        (faults, "KINDS", ["broker"]),
        (faults, "RATE", 0.15),
    ],
    "an_older_connection_takes_the_claim_back": [  # its word is held up at a broker that is cut off, but not out
        (claims, "STORIES", 1.0),
        (claims, "SHARE", 0.8),
        (claims, "RATE", 0.3),
        (workload, "ALONE", 1.0),
        (workload, "USERS", (1.0,)),
        (workload, "CUT", 0.2),
        (faults, "KINDS", ["isolate", "isolate", "isolate", "pause"]),
        (faults, "RATE", 0.2),
        (moves, "SHARE", 0.0),
    ],
    "a_new_replica_is_asked_nothing": _VERDICTS,
    "an_update_forgets_who_waits": _VERDICTS,
    "the_reserve_is_spent_on_bodies": [  # disks that are full, and not merely pressed
        (disk_stories, "LASTING", 1.0),
        (disk_stories, "ALIKE", 1.0),
        (disk_faults, "KINDS", ["full_disk"]),
        (disk_faults, "LEFT", (0.1, 0.15)),
        (disk_faults, "FULL_US", (2_000_000,)),
        (faults, "KINDS", []),
        (faults, "DENSE", 0.0),
        (faults, "RATE", 0.2),
    ],
    "who_is_behind_is_never_given_up": [  # one batch takes longer than the whole window
        (faults, "KINDS", ["slow"]),
        (faults, "SLOW_US", (8_000_000,)),
        (faults, "SLOW_BATCH_US", (7_000_000,)),
        (faults, "RATE", 0.1),
        (moves, "SHARE", 0.0),
        (memories, "SHARE", 0.0),
    ],
    "a_ring_takes_back_more_than_it_holds": [
        *_of_one_kind({"max_count": 6}),
        (message_moves, "STORIES", 1.0),
        (message_moves, "RATE", 0.5),
        (checkers, "COMPARE_SHARE", 1.0),
    ],
    "what_goes_to_the_alternate_holds_its_group": [
        *_of_one_kind({"max_count": 3, "group_key": "c"}, {"group_key": "c"}),
        (deaths, "DYING", 1.0),
        (delays, "STORIES", 0.0),
    ],
    "settlements_on_their_way_are_not_waited_for": [
        (workload, "ALONE", 1.0),
        (boxes, "ALL_AT_ONCE", 0.4),
        (workload, "CUT", 0.0),
        (workload, "OPERATIONS", 1_500),
        (delays, "STORIES", 0.0),
    ],
    "evict_returns_to_the_back": [
        *_PLAIN,
        (faults, "KINDS", ["broker", "replica", "replica"]),
        (faults, "RATE", 0.15),
        (modifies, "SHARE", 0.0),
        (actives, "STORIES", 0.0),
        (ranks, "STORIES", 0.0),
        (moves, "SHARE", 0.0),
        (workload, "CUT", 0.0),
    ],
    "a_broker_goes_on_as_if_it_had_no_say": [  # policies that hit the queues that are sent to, and brokers that are new
        (policies, "STORIES", 1.0),
        (policies, "PATTERNS", ("^q",)),
        (kinds, "KINDS", 0.0),
        (workload, "USERS", (1.0,)),
        (workload, "CUT", 0.15),
        (faults, "KINDS", ["broker"]),
        (faults, "RATE", 0.1),
        (moves, "SHARE", 1.0),
        (moves, "RATE", 0.08),
    ],
    "what_has_come_to_another_queue_fails_with_one_that_is_gone": [
        (redirects, "STORIES", 1.0),
        (redirects, "RATE", 0.5),
        (workload, "MANAGED", 0.3),
        (workload, "CONDITIONAL", 0.3),
        (workload, "USERS", (1.0,)),
    ],
    "the_next_one_does_not_wait_for_what_was_held": [  # one broker, whose process has lost its link just then
        (actives, "STORIES", 1.0),
        (actives, "SHARE", 1.0),
        (workload, "BROKERS", ("b1",)),
        (workload, "USERS", (1.0,)),
        (workload, "CUT", 0.2),
        (moves, "SHARE", 0.0),
    ],
}
WITHOUT_FAULTS = frozenset({"the_next_one_does_not_wait_for_what_was_held"})
"""Stories with faults have brokers of their own."""
