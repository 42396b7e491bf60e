"""The README as data: its code blocks, and its promises with the tests that keep them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

PROMISES: dict[str, list[str]] = {
    "What is complete stays.": ["tests/cluster/test_chaos_short.py::test_nothing_completed_is_lost"],
    "With three brokers any one may die, with five any two": [
        "tests/cluster/test_chaos_short.py::test_nothing_completed_is_lost",
        "tests/cluster/test_reconnect.py::test_no_complete_message_is_lost_and_no_accepted_one_comes_again",
        "tests/cluster/test_embedded.py::test_any_actor_of_an_embedded_cluster_may_die",
        "tests/unit/protocol/sequencer/test_machine.py::test_how_many_make_a_majority",
    ],
    "What is durable survives all of them at once.": [
        "tests/unit/conversations/test_stored_brokers.py::test_what_was_declared_survives_a_power_cut_of_all",
        "tests/unit/conversations/test_stored_queues.py::test_what_was_complete_survives_a_power_cut_of_all",
        "tests/cluster/test_store.py::test_what_is_complete_is_there_and_what_was_accepted_is_not",
    ],
    "In a cluster with a store exchanges, bindings and durable queues": [
        "tests/unit/conversations/test_stored_brokers.py::test_nothing_is_shown_that_is_not_on_disk",
        "tests/store/test_power_cuts.py::test_what_killed_processes_had_flushed_is_there_after_a_power_cut",
    ],
    "A majority of the stores is enough to go on": [
        "tests/unit/protocol/supervisor/test_stores.py::test_the_others_are_waited_for_then_a_majority_goes_on",
        "tests/unit/protocol/supervisor/test_stores.py::test_fewer_than_a_majority_wait_however_long",
    ],
    "A disk that is full stops transfers until there is room": [
        "tests/unit/conversations/test_room.py::test_room",
    ],
    "A queue is deleted if_unused or if_empty only where that is so at every broker": [
        "tests/cluster/test_promises.py::test_a_queue_in_use_or_with_messages_is_not_deleted_on_that_condition",
        "tests/unit/conversations/test_conditional_delete.py::test_a_consumer_without_credit_is_seen_from_every_broker",
        "tests/unit/conversations/test_conditional_delete.py::test_what_is_sent_behind_the_look_does_not_complete",
        "tests/unit/conversations/test_conditional_delete.py::test_the_broker_that_asks_dies_and_the_queue_is_of_use_again",
    ],
    "While that is decided, new": [
        "tests/unit/conversations/test_conditional_delete.py::test_who_comes_while_it_is_decided_waits",
        "tests/unit/conversations/test_conditional_delete.py::test_what_is_sent_meanwhile_completes_when_the_queue_stays",
    ],
    "It heals by itself.": ["tests/cluster/test_embedded.py::test_any_actor_of_an_embedded_cluster_may_die"],
    "A standby takes over from a sequencer that dies or stands still": [
        "tests/cluster/test_chaos_short.py::test_nothing_completed_is_lost",
        "tests/cluster/test_embedded.py::test_any_actor_of_an_embedded_cluster_may_die",
    ],
    "A single replica that stands still is given up by its broker": [
        "tests/cluster/test_flow_control.py::test_memory_stays_flat_while_a_replica_is_slow_and_then_one_stands_still",
    ],
    "One host may fail: brokers, the two sequencers, the two Ownerships": [
        "tests/hosts/test_spread.py::test_brokers_spread_again_when_a_host_comes",
        "tests/hosts/test_spread.py::test_a_host_dies_and_comes_back",
        "tests/unit/protocol/supervisor/test_spreading.py::test_on_three_hosts_no_two_that_are_needed_to_heal_share_one",
    ],
    "As long as a host may not fail, status warns of it": [
        "tests/unit/protocol/supervisor/test_spreading.py::test_a_host_with_a_majority_or_both_sequencers_is_named",
        "tests/hosts/test_spread.py::test_a_host_dies_and_comes_back",
    ],
    "It grows and shrinks while it works.": [
        "tests/cluster/test_membership.py::test_a_broker_joins_and_another_leaves_under_load",
    ],
    "A broker that joins counts once it has what it is to vote on": [
        "tests/unit/conversations/test_membership.py::test_a_broker_joins_the_cluster_then_its_queues",
        "tests/unit/conversations/test_membership.py::test_a_broker_leaves_its_queues_then_the_cluster",
    ],
    "Nothing complete is lost meanwhile, whoever dies": [
        "tests/cluster/test_membership.py::test_a_broker_joins_and_another_leaves_under_load",
        "tests/cluster/test_membership.py::test_the_next_supervisor_finishes_what_one_began",
    ],
    "Clients go on.": [
        "tests/cluster/test_reconnect.py::test_no_complete_message_is_lost_and_no_accepted_one_comes_again",
    ],
    "One that loses its broker turns to another member": [
        "tests/cluster/test_reconnect.py::test_no_complete_message_is_lost_and_no_accepted_one_comes_again",
        "tests/unit/client/sync/test_reconnect.py::test_what_is_not_complete_is_sent_again_and_applied_once",
    ],
    "What it had fetched and not accepted returns to its place": [
        "tests/unit/client/sync/test_reconnect.py::test_what_was_accepted_does_not_come_again_and_what_was_not_does",
    ],
    "A broker that is cut off stops serving when its lease": [
        "tests/unit/conversations/test_silent_cuts.py::test_both_ends_of_a_silent_link_leave_it_and_find_each_other_again",
        "tests/hosts/test_cut_and_healed.py::test_a_host_is_cut_off_and_healed_and_nothing_is_lost",
    ],
    "What it still hands out, others may hand out too": [
        "tests/unit/client/sync/test_reconnect.py::test_accepts_a_frozen_broker_never_took_are_lost_and_the_messages_come_again",
        "tests/unit/conversations/test_conversations.py::test_a_stale_or_duplicate_accept_is_lost_and_changes_nothing",
    ],
    "Memory stays bounded when a replica or a broker falls behind": [
        "tests/cluster/test_flow_control.py::test_memory_stays_flat_while_a_replica_is_slow_and_then_one_stands_still",
        "tests/unit/conversations/test_flow_control.py::test_who_is_behind_stops_the_transfers_of_all_and_nothing_else",
    ],
    "Some 64 MiB are kept for it": [
        "tests/unit/conversations/test_flow_control.py::test_bytes_count_as_well_as_entries"
    ],
    "Versions mix: members and clients of any minor version": [
        "tests/cluster/test_bad_input.py::test_clients_of_any_minor_are_served",
        "tests/cluster/test_bad_input.py::test_another_major_is_told_what_to_do_and_counted",
        "tests/unit/conversations/test_versions.py::test_members_of_another_minor_work_with_the_others",
        "tests/unit/conversations/test_versions.py::test_another_cluster_is_refused_with_its_name_and_what_to_do",
    ],
    "mantamq status names every reason why": [
        "tests/unit/actors/supervisor/test_health.py::test_every_reason_is_named_once",
        "tests/unit/client/cli/test_status.py::test_check_health_has_an_exit_code",
    ],
    "After a power cut of all, members with stores tell again what they apply again": [
        "tests/unit/conversations/test_told_again.py::test_told_again",
    ],
    "The event table is what was committed, each event once": [
        "tests/cluster/test_events.py::test_the_events_are_what_the_clients_counted_whoever_is_killed",
        "tests/unit/protocol/capture/test_tap.py::test_a_dropped_row_says_what_is_missing_and_where",
    ],
}
"""How a sentence of "What holds" begins -> the tests that keep it."""


def text() -> str:
    return (ROOT / "README.md").read_text("utf-8")


def blocks(readme: str, language: str) -> list[str]:
    """Fenced blocks of a language; "" for those that name none, which are the shell's."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", readme, re.M | re.S)
    return [body for name, body in found if name == language]


def commands(block: str) -> list[str]:
    """A shell block's commands: several stand in a line, with two spaces or more between them."""
    lines = [re.split(r"\s+#", line)[0] for line in block.splitlines()]
    return [word.strip() for line in lines for word in re.split(r"\s{2,}", line) if word.strip()]


def sentences(readme: str, section: str = "What holds") -> list[str]:
    """The sentences of a section's list, without marks."""
    body = readme.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found: list[str] = []
    for item in re.split(r"^- ", body, flags=re.M)[1:]:
        plain = " ".join(re.sub(r"\*\*|`|(?<!\w)\*|\*(?!\w)", "", item).split())
        found += re.split(r"(?<=[.!?])\s+(?=[A-Z])", plain)
    return found


def unkept(readme: str, promises: dict[str, list[str]], root: Path = ROOT) -> list[str]:
    """What is wrong between the promises and the tests, a sentence each."""
    wrong: list[str] = []
    said = sentences(readme)
    for sentence in said:
        if not any(sentence.startswith(beginning) for beginning in promises):
            wrong.append(f"no test is named for: {sentence}")
    for beginning, tests in promises.items():
        if sum(sentence.startswith(beginning) for sentence in said) != 1:
            wrong.append(f"the README does not say, or says twice: {beginning}")
        if not tests:
            wrong.append(f"no test is named for: {beginning}")
        for test in tests:
            file, _, name = test.partition("::")
            path = root / file
            if not path.is_file() or not re.search(rf"^(async )?def {name}\(", path.read_text("utf-8"), re.M):
                wrong.append(f"there is no {test}")
    return wrong
