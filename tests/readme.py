"""The README as data: its code blocks, and its promises with the tests that keep them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

PROMISES: dict[str, list[str]] = {
    "Traces: a message of a traced connection comes with its own trace": [
        "tests/unit/client/test_tracing.py::test_each_message_has_a_context_of_its_own_and_is_left_as_it_was",
        "tests/unit/client/test_tracing.py::test_a_trace_goes_through_the_queue",
        "tests/unit/chaos/test_parts.py::test_a_message_comes_with_its_own_trace_or_none",
    ],
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
    "What makes room goes on": [
        "tests/unit/conversations/test_room.py::test_room",
        "tests/unit/client/books/test_send_gate.py::test_transfers_wait_and_all_else_goes_on",
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
    "What is counted is the same everywhere": [
        "tests/unit/client/test_counts.py::test_every_broker_has_counted_the_same",
        "tests/unit/protocol/queue/test_statistics.py::test_each_message_is_counted_by_what_became_of_it",
    ],
    "A replica that joins goes on counting where the others are.": [
        "tests/unit/protocol/queue/test_statistics.py::test_a_replica_that_joins_counts_on",
    ],
    "Every broker tells it": [
        "tests/unit/client/test_counts.py::test_every_broker_has_counted_the_same",
        "tests/unit/client/test_counts.py::test_the_oldest_message_has_an_age",
    ],
    "No local:": [
        "tests/unit/client/test_no_local.py::test_a_receiver_gets_what_others_have_sent_and_its_own_stays",
        "tests/unit/client/test_no_local.py::test_what_was_sent_before_another_broker_took_over_is_its_own_still",
        "tests/unit/client/test_no_local.py::test_the_asyncio_twin",
    ],
    "Those messages stay for other consumers": [
        "tests/unit/client/test_no_local.py::test_a_queue_whose_only_consumer_wants_none_of_it_keeps_it",
        "tests/unit/client/test_no_local.py::test_a_receiver_gets_what_others_have_sent_and_its_own_stays",
    ],
    "It goes by who sent a message first": [
        "tests/unit/client/test_no_local.py::test_every_queue_that_an_exchange_or_several_keys_lead_to_knows",
        "tests/unit/client/test_no_local.py::test_dead_letters_are_of_who_sent_them_first",
        "tests/unit/client/test_no_local.py::test_by_an_alternate_exchange_that_looks_at_headers_too",
        "tests/unit/conversations/test_no_local.py::test_a_power_cut_of_all",
        "tests/unit/conversations/test_no_local.py::test_a_copy_that_was_updated_knows_as_well",
    ],
    "A consumer of a queue with message groups is refused it": [
        "tests/unit/client/test_no_local.py::test_a_queue_with_groups_has_none_but_for_browsers",
        "tests/unit/client/test_no_local.py::test_browsers_and_selectors_have_it_too",
    ],
    "Duplicates: a queue that is declared with": [
        "tests/unit/client/test_deduplication.py::test_a_message_id_comes_in_once_and_its_send_completes_all_the_same",
        "tests/unit/client/test_deduplication.py::test_after_the_window_it_comes_in_again",
        "tests/unit/client/test_deduplication.py::test_dead_letters_with_an_id_that_is_known_do_not_come_in",
    ],
    "By dedupe_window_count= it looks": [
        "tests/unit/protocol/queue/test_deduplication.py::test_by_count_the_oldest_id_is_forgotten_first",
        "tests/unit/protocol/queue/test_deduplication.py::test_by_time_alone_it_knows_so_many",
    ],
    "What is known outlives brokers": [
        "tests/unit/conversations/test_deduplication.py::test_a_power_cut_of_all",
        "tests/unit/conversations/test_deduplication.py::test_a_copy_that_was_updated_knows_as_well",
    ],
    "A duplicate needs no room": [
        "tests/unit/client/test_deduplication.py::test_at_a_limit_a_duplicate_completes",
        "tests/unit/protocol/queue/test_deduplication.py::test_at_a_limit_a_duplicate_needs_no_room_and_what_is_refused_is_not_known",
        "tests/unit/client/test_deduplication.py::test_the_other_queues_of_a_fanout_get_it",
    ],
    "A message without message_id": [
        "tests/unit/protocol/queue/test_deduplication.py::test_a_message_without_an_id_always_comes_in",
    ],
    "Named senders:": [
        "tests/unit/client/test_named_senders.py::test_who_is_started_anew_goes_on_behind_what_is_complete",
        "tests/unit/client/test_named_senders.py::test_what_is_sent_again_under_its_number_does_not_come_in_twice",
        "tests/unit/client/test_named_senders.py::test_its_client_goes_on_at_another_broker",
    ],
    "So number n is to be the same message": [
        "tests/unit/client/test_named_senders.py::test_what_is_sent_again_under_its_number_does_not_come_in_twice",
        "tests/unit/client/test_named_senders.py::test_numbers_may_have_gaps_and_rise",
    ],
    "What the queue has refused, or what has expired": [
        "tests/unit/client/test_named_senders.py::test_what_a_full_queue_refuses_keeps_its_number_and_is_not_sent_again",
        "tests/unit/client/test_named_senders.py::test_what_has_expired_is_not_sent_again",
        "tests/unit/client/test_named_senders.py::test_what_is_moved_on_or_purged_is_not_sent_again",
        "tests/unit/client/test_named_senders.py::test_what_is_delayed_keeps_its_number",
    ],
    "A queue that is deleted takes the numbers": [
        "tests/unit/client/test_named_senders.py::test_a_queue_that_is_deleted_ends_its_named_senders_and_the_next_of_its_name_knows_none",
    ],
    "As with Kafka's transactional ids the last": [
        "tests/unit/client/test_named_senders.py::test_the_last_one_to_begin_has_the_name_and_the_first_ends",
        "tests/unit/conversations/test_deduplication.py::test_a_named_sender_is_over_at_every_broker_and_stays_so_when_it_comes_back",
    ],
    "The last 10,000 names used are known": [
        "tests/unit/protocol/queue/test_named_senders.py::test_others_do_not_make_it_forgotten",
        "tests/unit/protocol/queue/test_named_senders.py::test_of_more_names_than_so_many_the_one_longest_silent_is_forgotten",
        "tests/unit/conversations/test_deduplication.py::test_a_named_sender_goes_on_after_a_power_cut_of_all",
    ],
    "Queues that go with their last consumer": [
        "tests/unit/client/test_auto_delete.py::test_it_goes_with_the_last_consumer_and_what_is_in_it",
        "tests/unit/client/test_auto_delete.py::"
        "test_it_waits_for_as_long_as_a_client_looks_for_another_broker_unless_it_says_otherwise",
        "tests/unit/client/test_auto_delete.py::test_a_client_that_moves_to_another_broker_finds_it_and_its_messages",
        "tests/unit/client/cli/test_cli.py::test_a_queue_that_goes_with_its_last_consumer",
    ],
    "It goes at all brokers at one place of the": [
        "tests/unit/conversations/test_auto_delete.py::"
        "test_it_goes_when_its_last_consumer_in_the_cluster_has_gone_for_so_long",
        "tests/unit/conversations/test_auto_delete.py::test_whoever_dies_meanwhile_it_goes_no_earlier_and_not_much_later",
        "tests/unit/conversations/test_auto_delete.py::test_who_comes_while_the_deletion_is_on_its_way_keeps_it",
        "tests/unit/conversations/test_auto_delete.py::test_at_once_if_it_is_not_to_wait",
    ],
    "One that has had no consumer yet stays, and browsers": [
        "tests/unit/conversations/test_auto_delete.py::"
        "test_it_goes_when_its_last_consumer_in_the_cluster_has_gone_for_so_long",
    ],
    "Exclusive queues": [
        "tests/unit/client/test_exclusive_queues.py::test_a_client_that_moves_to_another_broker_has_it_still",
        "tests/unit/conversations/test_exclusive_queues.py::test_a_client_that_comes_back_has_it_still",
    ],
    "Others may send to it": [
        "tests/unit/client/test_exclusive_queues.py::test_others_send_to_it_and_do_nothing_else_with_it",
        "tests/unit/conversations/test_exclusive_queues.py::test_others_may_send_to_it_and_nothing_else",
        "tests/unit/conversations/test_exclusive_queues.py::test_a_broker_that_has_not_heard_of_it_yet_keeps_it_all_the_same",
    ],
    "It goes when the connection is closed, and when it": [
        "tests/unit/client/test_exclusive_queues.py::test_it_goes_at_once_when_its_connection_is_closed",
        "tests/unit/client/test_exclusive_queues.py::test_it_waits_for_a_connection_that_is_lost",
        "tests/unit/conversations/test_exclusive_queues.py::test_a_broker_that_dies_takes_the_connection_along",
    ],
    "Requests and replies": [
        "tests/unit/client/test_request_reply.py::test_a_request_gets_its_reply",
        "tests/unit/client/test_request_reply.py::test_many_requests_at_once_get_each_its_own_reply",
        "tests/unit/client/test_request_reply.py::test_the_asyncio_twin",
    ],
    "Replies come to one exclusive queue of the connection": [
        "tests/unit/client/test_request_reply.py::test_many_requests_at_once_get_each_its_own_reply",
        "tests/unit/client/test_request_reply.py::test_what_a_reply_needs",
    ],
    "It goes on at another broker; one that comes too late": [
        "tests/unit/client/test_request_reply.py::test_requests_that_wait_go_on_at_another_broker",
        "tests/unit/client/test_request_reply.py::test_a_reply_that_comes_late_is_dropped",
        "tests/unit/client/test_request_reply.py::test_what_cannot_be_routed_fails_at_once",
    ],
    "A queue can be redirected": [
        "tests/unit/client/test_redirects.py::test_what_is_sent_comes_into_the_target",
        "tests/unit/client/test_redirects.py::test_a_move_and_dead_letters_come_into_the_target",
        "tests/unit/protocol/wiring/test_redirects.py::test_every_way_to_the_source_leads_to_the_target",
    ],
    "Senders notice nothing": ["tests/unit/client/test_redirects.py::test_what_is_sent_comes_into_the_target"],
    "What orders holds stays": ["tests/unit/client/test_redirects.py::test_consumers_go_on_with_what_is_there"],
    "What is sent to orders-2 stays there": [
        "tests/unit/protocol/wiring/test_redirects.py::test_a_message_for_both_comes_once",
    ],
    "It ends with connection.end_redirect": [
        "tests/unit/client/test_redirects.py::test_either_queue_takes_it_along",
        "tests/unit/protocol/wiring/test_redirects.py::test_it_ends_with_its_target",
        "tests/unit/protocol/wiring/test_redirects.py::test_it_ends_with_its_source",
        "tests/unit/client/cli/test_cli.py::test_a_redirected_queue",
    ],
    "Several queues may be redirected to one; chains": [
        "tests/unit/protocol/wiring/test_redirects.py::test_several_queues_have_one_target",
        "tests/unit/client/test_redirects.py::test_what_is_refused",
    ],
    "Named senders go on at the queue": [
        "tests/unit/client/test_redirects.py::test_a_named_sender_stays_with_the_queue_that_keeps_its_numbers",
    ],
    "What is sent again after a lost connection, just": [
        "tests/unit/conversations/test_redirects.py::test_what_is_sent_again_is_in_each_queue_once",
    ],
    "Policies give queues by the pattern of their names": [
        "tests/unit/client/test_policies.py::test_queues_get_what_it_says_for_as_long_as_it_is_there",
        "tests/unit/protocol/wiring/test_queue_policies.py::test_a_queue_gets_what_the_policy_of_its_name_says",
        "tests/unit/client/cli/test_cli.py::test_policies",
    ],
    "Of several that fit, the one with the": [
        "tests/unit/protocol/wiring/test_queue_policies.py::test_the_highest_priority_wins_and_then_the_first_name",
        "tests/unit/protocol/wiring/test_queue_policies.py::test_what_is_declared_goes_before_what_a_policy_says",
    ],
    "With --operator the numbers are the most": [
        "tests/unit/protocol/wiring/test_queue_policies.py::test_an_operators_policy_is_the_most_that_a_queue_gets",
    ],
    "A policy sets max_count": [
        "tests/unit/client/test_policies.py::test_what_is_refused",
        "tests/unit/protocol/wiring/test_queue_policies.py::test_an_alternate_is_a_policys_where_it_is_there",
        "tests/unit/protocol/wiring/test_name_patterns.py::test_no_pattern_takes_long",
    ],
    "A policy that comes, changes or goes": [
        "tests/unit/client/test_policies.py::test_queues_get_what_it_says_for_as_long_as_it_is_there",
        "tests/unit/client/test_policies.py::test_what_is_in_a_queue_follows_too",
        "tests/unit/protocol/wiring/test_queue_policies.py"
        "::test_what_is_there_follows_and_keeps_what_it_was_declared_with_apart",
        "tests/unit/protocol/queue/test_arrangement.py::test_without_the_policy_it_is_what_it_was",
    ],
    "A limit that is less than what a queue holds": [
        "tests/unit/protocol/queue/test_arrangement.py::test_the_oldest_go_at_once_from_what_becomes_a_smaller_ring",
        "tests/unit/protocol/queue/test_arrangement.py"
        "::test_what_becomes_a_smaller_queue_that_refuses_keeps_what_it_has",
        "tests/unit/protocol/queue/test_arrangement.py::test_what_comes_from_a_broker_that_did_not_know_is_not_refused",
        "tests/unit/protocol/queue/test_arrangement.py"
        "::test_nothing_is_refused_before_every_broker_knows_that_it_may_be_or_is_out",
        "tests/unit/protocol/queue/test_arrangement.py::test_the_times_to_live_are_of_what_comes_from_there_on",
    ],
    "Patterns make queues and exchanges on demand": [
        "tests/unit/client/test_patterns.py::test_whoever_attaches_makes_it",
        "tests/unit/client/cli/test_cli.py::test_patterns",
        "tests/unit/conversations/test_on_demand.py::test_two_that_attach_at_once_get_one_queue",
    ],
    "Which pattern is a name": [
        "tests/unit/protocol/wiring/test_node_patterns.py::test_the_highest_priority_wins_and_then_the_first_name",
        "tests/unit/conversations/test_on_demand.py::test_policies_count_for_what_is_made",
    ],
    "Attaching is refused for what declaring would be": [
        "tests/unit/client/test_patterns.py::test_what_a_declaration_is_refused_for_attaching_is",
    ],
    "Receivers make queues alone": ["tests/unit/client/test_patterns.py::test_exchanges"],
    "Who comes back to a queue that was deleted": [
        "tests/unit/conversations/test_on_demand.py::test_who_comes_back_makes_nothing",
        "tests/unit/client/test_patterns.py::test_a_queue_that_goes_is_made_again_for_who_comes_anew",
    ],
    "What was made stays when its pattern goes": [
        "tests/unit/client/test_patterns.py::test_whoever_attaches_makes_it",
    ],
    "Queues without a name": [
        "tests/unit/client/test_made_names.py::test_each_has_a_name_like_no_other_and_may_be_used_by_it",
        "tests/unit/client/cli/test_cli.py::test_a_queue_without_a_name_gets_one",
    ],
    "One is made for each call": [
        "tests/unit/client/test_made_names.py::test_who_asks_again_at_another_broker_has_made_one",
    ],
    "Exchanges that number: through declare_exchange": [
        "tests/unit/client/test_relays.py::test_each_message_has_its_number_in_the_exchange",
        "tests/unit/client/test_relays.py::test_what_is_sent_at_several_brokers_has_one_order",
        "tests/unit/protocol/replica/test_relaying.py::"
        "test_a_batch_is_told_with_its_first_position_and_each_message_has_its_number_and_its_keys",
    ],
    "No number is given twice or lost": [
        "tests/unit/conversations/test_relays.py::"
        "test_what_was_on_its_way_as_its_broker_died_is_sent_on_by_others_once_and_in_order",
        "tests/unit/conversations/test_relays.py::test_a_power_cut_takes_no_number_and_gives_none_twice",
        "tests/unit/protocol/queue/test_relay.py::test_a_copy_that_is_brought_up_to_date_anywhere_goes_on_alike",
    ],
    "Initial values: through declare_exchange": [
        "tests/unit/client/test_relays.py::test_a_queue_that_comes_late_has_the_last_message_first",
        "tests/unit/conversations/test_relays.py::test_a_broker_that_has_come_back_goes_on_counting_and_keeps_the_last",
        "tests/unit/protocol/queue/test_relay.py::test_the_last_message_stays_and_is_the_first_of_the_next_batch",
        "tests/unit/conversations/test_relays.py::test_a_queue_bound_by_a_broker_that_has_not_seen_it_yet_gets_the_last_message_all_the_same",
    ],
    "A queue that has had it does not get it again": [
        "tests/unit/client/test_relays.py::test_a_queue_that_comes_late_has_the_last_message_first",
        "tests/unit/conversations/test_relays.py::test_whoever_dies_as_a_queue_is_bound_it_gets_the_last_message_once",
    ],
    "Delayed messages:": [
        "tests/unit/client/test_delays.py::test_nobody_gets_it_before_and_then_whoever_waits_does",
        "tests/unit/client/test_delays.py::test_the_asyncio_twin",
        "tests/unit/conversations/test_delays.py::test_whoever_consumes_gets_each_when_it_is_due",
    ],
    "Until then it is in the queue": [
        "tests/unit/protocol/queue/test_delayed.py::test_it_counts_for_a_limit_and_nobody_holds_it",
        "tests/unit/client/test_delays.py::test_a_browser_sees_it_a_purge_takes_it_and_it_expires",
        "tests/unit/conversations/test_delays.py::test_they_survive_a_power_cut",
    ],
    "Its ttl, and its queue's, run meanwhile": [
        "tests/unit/protocol/queue/test_delayed.py::test_it_expires_while_it_is_delayed",
        "tests/unit/protocol/queue/test_delayed_among_others.py::"
        "test_its_time_to_live_begins_when_it_comes_and_not_when_it_is_due",
        "tests/unit/protocol/replica/test_dues.py::test_what_has_expired_does_not_become_due_as_well",
    ],
    "It comes once, whoever dies.": [
        "tests/unit/conversations/test_delays.py::test_they_survive_a_takeover_and_an_update",
    ],
    "With session.release(message, delay=5)": [
        "tests/unit/client/test_delays.py::test_one_is_given_back_for_a_while",
        "tests/unit/conversations/test_delays.py::"
        "test_one_that_is_given_back_for_later_does_not_come_before_though_its_consumer_dies",
    ],
    "Messages become available in the order in which they are due": [
        "tests/unit/client/test_delays.py::test_due_ones_come_in_their_places",
    ],
    "Retry back-off:": [
        "tests/unit/client/test_retry_delays.py::test_it_waits_longer_each_time",
        "tests/unit/client/test_retry_delays.py::test_what_a_consumer_held_that_goes_waits_and_what_it_had_not_seen_does_not",
    ],
    "With retry_delay_min_s=5": [
        "tests/unit/client/test_retry_delays.py::test_it_waits_longer_by_the_same_each_time_up_to_a_bound",
        "tests/unit/client/test_retry_delays.py::test_rabbitmqs_words_mean_the_same",
    ],
    "A release with a delay of its own": [
        "tests/unit/protocol/queue/test_delayed.py::"
        "test_its_own_delay_counts_more_than_the_queues_and_its_death_more_than_either",
    ],
    "What the consumers of a broker that dies held": [
        "tests/unit/protocol/queue/test_delayed.py::"
        "test_what_does_not_count_as_a_delivery_or_says_no_time_does_not_wait",
    ],
    "Several routing keys:": [
        "tests/unit/client/test_several_keys.py::test_each_queue_gets_it_once_and_the_alternate_only_what_nobody_gets",
    ],
    "Only one for which none finds a queue": [
        "tests/unit/client/test_several_keys.py::test_each_queue_gets_it_once_and_the_alternate_only_what_nobody_gets",
        "tests/unit/client/test_several_keys.py::test_a_message_that_none_of_them_leads_anywhere",
    ],
    "mantamq send NAME --key eu": [
        "tests/unit/client/cli/test_cli.py::test_lines_go_by_all_the_keys",
    ],
    "A receiver stops and starts.": [
        "tests/unit/client/test_stops.py::test_who_stops_is_sent_nothing_and_may_settle",
    ],
    "After receiver.stop() it is sent nothing": [
        "tests/unit/client/test_stops.py::test_who_stops_is_sent_nothing_and_may_settle",
        "tests/unit/client/test_stops.py::test_it_is_stopped_at_the_next_broker_too",
    ],
    "With receiver.flush() it waits until all that its credit allows is here": [
        "tests/unit/client/test_stops.py::test_flush_says_how_many_the_queue_still_has",
        "tests/unit/client/test_stops.py::test_flush_counts_what_this_receiver_may_not_have",
    ],
    "A modified message keeps what its consumers say of it": [
        "tests/unit/client/test_modify.py::test_counts_and_notes_are_seen_by_whoever_gets_it_next",
    ],
    "Qpid's lifetimes:": [
        "tests/unit/client/test_auto_delete.py::"
        "test_one_that_goes_only_when_it_is_empty_stays_while_something_is_in_it",
        "tests/unit/client/test_auto_delete.py::test_what_another_consumer_takes_is_gone_and_so_is_the_queue_behind_it",
        "tests/unit/client/test_auto_delete.py::test_one_that_was_left_empty_goes_in_time",
    ],
    "Its delete-if-unused is auto_delete": [
        "tests/unit/client/test_auto_delete.py::test_qpids_words_for_what_others_say_as_well",
        "tests/unit/client/test_auto_delete.py::test_one_of_lifetime_delete_on_close_goes_with_its_connection",
    ],
    "Queues that go when nobody uses them": [
        "tests/unit/client/test_expires.py::test_it_goes_with_what_is_in_it_when_nobody_has_used_it_for_so_long",
        "tests/unit/client/test_expires.py::test_a_consumer_or_a_declaration_keeps_it",
        "tests/unit/client/test_expires.py::test_the_asyncio_twin",
    ],
    "It goes in time of the cluster's own log, as those above": [
        "tests/unit/protocol/wiring/test_idle_queues.py::test_and_anew_with_each_declaration_that_agrees",
        "tests/unit/conversations/test_auto_delete.py::test_a_broker_that_comes_back_counts_anew_and_knows_what_was_left",
        "tests/unit/protocol/wiring/test_idle_queues.py::test_a_snapshot_has_it",
    ],
    "A time-out of consumers": [
        "tests/unit/client/test_consumer_timeout.py::test_who_holds_a_message_for_longer_is_sent_away_and_others_get_it",
        "tests/unit/client/test_consumer_timeout.py::test_what_was_not_even_fetched_counts",
        "tests/unit/client/test_consumer_timeout.py::test_at_whatever_broker_it_is",
        "tests/unit/client/test_consumer_timeout.py::test_the_asyncio_twin",
    ],
    "All that it held is back in its place by then": [
        "tests/unit/client/test_consumer_timeout.py::test_who_holds_a_message_for_longer_is_sent_away_and_others_get_it",
        "tests/unit/client/test_consumer_timeout.py::test_who_settles_late_finds_that_in_lost",
    ],
    "A queue's own time to live:": [
        "tests/unit/client/test_message_ttl.py::test_each_message_expires_so_long_after_it_came_or_earlier_by_its_own",
        "tests/unit/client/test_message_ttl.py::test_in_every_kind_of_queue",
        "tests/unit/client/test_message_ttl.py::test_what_comes_back_when_its_time_is_over_goes_then",
        "tests/unit/protocol/queue/test_time_to_live.py::test_it_expires_wherever_it_is",
        "tests/unit/client/test_message_ttl.py::test_the_asyncio_twin",
    ],
    "It is the same at every broker, through failovers and power cuts": [
        "tests/unit/protocol/queue/test_time_to_live.py::test_a_copy_that_is_brought_up_to_date_knows_when",
        "tests/unit/conversations/test_message_ttl.py::test_it_survives_a_takeover_and_an_update",
        "tests/unit/conversations/test_message_ttl.py::test_it_survives_a_power_cut_of_all",
    ],
    "What expires is a dead letter where the queue has an alternate": [
        "tests/unit/client/test_message_ttl.py::test_a_dead_letter_lives_anew_where_it_comes_to",
    ],
    "With 0 a message goes at once": [
        "tests/unit/client/test_message_ttl.py::test_with_0_a_consumer_that_waits_gets_it_and_otherwise_it_goes",
    ],
    "Dead letters: what leaves a queue with an alternate": [
        "tests/unit/client/test_dead_letters.py::test_what_expires_goes_there",
        "tests/unit/client/test_dead_letters.py::test_and_does_not_where_only_rejected_messages_are_to",
        "tests/unit/client/test_dead_letters.py::test_what_comes_back_too_often_goes_there_and_says_how_often",
        "tests/unit/client/test_dead_letters.py::test_the_oldest_that_waits_makes_room",
        "tests/unit/protocol/replica/test_seeing_to.py::test_it_is_seen_to_by_whoever_asked_for_the_event",
        "tests/unit/protocol/replica/test_seeing_to.py::test_and_by_all_others_when_that_is_out",
    ],
    "What a deleted queue still holds goes to its alternate": [
        "tests/unit/conversations/test_dissolved.py::test_what_waits_and_what_is_held_goes_to_the_alternate_in_order",
        "tests/unit/conversations/test_dissolved.py::test_whoever_sees_to_it_may_die",
        "tests/unit/conversations/test_dissolved.py::test_what_was_on_its_way_comes_to_the_alternate_too",
        "tests/unit/conversations/test_dissolved.py::test_what_is_delayed_goes_at_once_and_so_does_what_comes_late",
        "tests/unit/conversations/test_dissolved.py::test_what_a_move_brings_back_to_a_deleted_queue_is_its_letter",
        "tests/unit/conversations/test_dissolved.py::"
        "test_what_is_on_its_way_to_a_queue_that_is_deleted_is_that_queues_letter_once",
        "tests/unit/conversations/test_dissolved.py::test_one_that_goes_by_itself_leaves_letters_too",
    ],
    "Deleting it returns how much that is": [
        "tests/unit/client/test_deleted.py::test_the_deleter_hears_how_much_goes_to_the_alternate",
        "tests/unit/client/cli/test_cli.py::test_a_queue_is_deleted_by_one_condition_and_says_what_goes_to_its_alternate",
    ],
    "Consumers and senders hear Deleted": [
        "tests/unit/client/test_deleted.py::test_whoever_is_attached_hears_it",
        "tests/unit/client/test_deleted.py::test_whoever_is_attached_hears_it_awaited",
    ],
    "Until all has gone the alternate exchange cannot be deleted": [
        "tests/unit/conversations/test_dissolved.py::test_its_name_is_free_at_once_and_its_alternate_is_in_use",
    ],
    "It goes by the queue's name as its key": [
        "tests/unit/client/test_dead_letters.py::test_by_its_own_key",
    ],
    "A dead letter says why and whence it comes": [
        "tests/unit/protocol/broker/test_deaths.py::test_a_letter_says_why_and_from_where_it_comes_beside_what_it_was",
        "tests/unit/protocol/broker/test_deaths.py::test_the_newest_death_is_first_and_the_same_again_is_counted",
    ],
    "No letter goes round by itself": [
        "tests/unit/client/test_dead_letters.py::test_a_queue_that_is_bound_to_its_own_alternate_does_not_go_round",
        "tests/unit/protocol/broker/test_deaths.py::test_a_message_that_nobody_rejects_comes_to_no_queue_twice",
    ],
    "RabbitMQ's x-dead-letter-exchange, x-dead-letter-routing-key": [
        "tests/unit/client/test_dead_letters.py::test_in_rabbitmqs_words",
    ],
    "Messages can be moved": [
        "tests/unit/client/test_moves.py::test_all_go_in_order_as_they_were",
        "tests/unit/client/test_moves.py::test_a_large_move_takes_many_events_and_answers",
        "tests/unit/protocol/queue/test_move_rules.py::test_what_a_dead_broker_saw_to_is_an_orphan",
    ],
    "The answer says how many have gone.": [
        "tests/unit/client/test_moves.py::test_so_many_and_those_that_a_selector_wants",
    ],
    "Nothing goes that a consumer was given": [
        "tests/unit/client/test_moves.py::test_what_a_consumer_holds_stays_his",
        "tests/unit/client/test_moves.py::test_nothing_goes_to_what_is_not_there",
        "tests/unit/protocol/queue/test_moves_among_others.py::test_what_is_delayed_is_passed_over_and_stays",
    ],
    "A queue's own time to live stays behind.": [
        "tests/unit/protocol/queue/test_moves_among_others.py::"
        "test_a_message_takes_its_senders_time_along_and_leaves_the_queues_behind",
    ],
    "What a queue at its limit refuses": [
        "tests/unit/client/test_moves.py::test_what_a_full_queue_does_not_take_is_back",
    ],
    'With connection.reroute("orders")': [
        "tests/unit/client/test_moves.py::test_reroute_keeps_their_keys",
    ],
    'With connection.redrive("dead")': [
        "tests/unit/client/test_moves.py::test_redrive_sends_each_back_to_where_it_died",
    ],
    'By connection.purge("orders", selector=)': [
        "tests/unit/client/test_moves.py::test_so_many_and_those_that_a_selector_wants",
    ],
    "mantamq queue peek ORDERS": [
        "tests/unit/client/cli/test_moves.py::test_peek_looks_and_takes_nothing",
    ],
    "mantamq queue move ORDERS": [
        "tests/unit/client/cli/test_moves.py::test_the_commands",
    ],
    "Whoever gets it next reads message.annotations": [
        "tests/unit/client/test_modify.py::test_counts_and_notes_are_seen_by_whoever_gets_it_next",
        "tests/unit/client/test_modify.py::test_what_cannot_be_noted_harms_nothing",
        "tests/unit/protocol/queue/test_modify.py::test_annotations_are_merged_and_go_with_their_message",
        "tests/unit/conversations/test_modified.py::test_what_was_noted_survives_a_takeover_and_an_update",
        "tests/unit/conversations/test_modified.py::test_what_was_noted_survives_a_power_cut",
    ],
    "When a message came": [
        "tests/unit/client/test_enqueued_at.py::test_it_is_the_same_each_time",
        "tests/unit/conversations/test_enqueue_times.py::test_it_survives_a_takeover_and_an_update",
        "tests/unit/conversations/test_enqueue_times.py::test_it_survives_a_power_cut",
    ],
    "A dead letter has the time": [
        "tests/unit/conversations/test_enqueue_times.py::test_a_dead_letter_has_come_when_it_came_into_that_queue",
    ],
    "With undeliverable_here=True that receiver": [
        "tests/unit/client/test_modify.py::test_undeliverable_here",
        "tests/unit/client/test_modify.py::test_another_broker_is_told_what_is_undeliverable",
    ],
    "What one broker alone knows": [
        "tests/unit/client/test_statistics.py::test_what_each_broker_alone_knows_is_added_up",
        "tests/unit/client/test_statistics.py::test_a_broker_that_does_not_answer_is_named",
        "tests/unit/client/cli/test_queues.py::test_stat_sorts_and_bounds",
    ],
    "Who is held back is told": [
        "tests/unit/client/test_limits.py::test_who_is_held_back_as_it_sends_is_told_at_every_broker",
        "tests/unit/protocol/broker/test_restraints.py::test_a_broker_without_room_has_nobody_send",
        "tests/unit/client/test_stopped.py::test_the_asynchronous_twin_says_the_same",
        "tests/unit/client/cli/test_held_back.py::test_perftest_says_it_each_second_and_at_the_end",
    ],
    "Alerts: with arguments": [
        "tests/unit/protocol/queue/test_alerts.py::test_both_thresholds_belong_to_it",
        "tests/unit/protocol/queue/test_alerts.py::test_what_swings_between_the_two_is_told_once",
        "tests/unit/protocol/queue/test_alerts.py::test_while_it_stays_it_is_told_again_after_the_gap",
        "tests/unit/conversations/test_alerts.py::test_a_message_that_lies_there_is_told_of_though_nothing_happens",
    ],
    "One replica speaks for all": [
        "tests/unit/conversations/test_alerts.py::test_one_replica_tells_for_all",
        "tests/unit/conversations/test_alerts.py::test_when_who_speaks_is_out_the_next_tells_what_is_up",
    ],
    "It is in that process's log": [
        "tests/unit/conversations/test_alerts.py::test_one_replica_tells_for_all",
        "tests/unit/client/cli/test_follow.py::test_kinds_and_queues_may_be_named",
    ],
    "A limit refuses what comes": [
        "tests/unit/client/test_limits.py::test_at_its_limit_a_queue_refuses_and_all_else_goes_on",
        "tests/unit/client/test_limits.py::test_of_a_fanout_the_other_queues_get_it",
    ],
    "A send that is repeated after a lost": [
        "tests/unit/client/test_limits.py::test_a_send_that_is_repeated_at_another_broker_hears_the_same",
        "tests/unit/protocol/queue/test_refusing.py::test_a_strict_ring_refuses_while_the_oldest_is_held",
    ],
    "RabbitMQ's x-overflow=reject-publish is reject.": [
        "tests/unit/protocol/queue/test_settings.py::test_definitions_that_mean_the_same_are_the_same",
    ],
    'With overflow="self-destruct" the queue is deleted': [
        "tests/unit/client/test_limits.py::test_a_queue_that_destroys_itself_is_gone_with_all_that_was_in_it_and_its_name_is_free",
        "tests/unit/protocol/queue/test_self_destruct.py::test_at_its_limit_it_is_whole_and_above_it_all_is_gone_also_what_is_held",
        "tests/unit/protocol/queue/test_self_destruct.py::test_whoever_of_the_brokers_dies_the_rest_delete_it",
    ],
    'Queue("orders", maxsize=1000) of the Ray-native': [
        "tests/unit/client/test_queue_sizes.py::test_of_all_who_put_at_once_so_many_succeed_as_there_is_room",
        "tests/unit/client/test_queue_sizes.py::test_so_with_the_asyncio_twins",
        "tests/unit/client/test_queue_sizes.py::test_whoever_waits_for_room_gets_it_and_each_item_is_there_once",
    ],
    "A message that is larger than max_size is refused": [
        "tests/unit/client/test_limits.py::test_a_message_larger_than_the_limit_is_refused_by_a_ring_too",
        "tests/unit/protocol/queue/test_refusing.py::test_one_that_is_larger_than_the_limit_is_refused",
    ],
    "Queues that name no limit have none, or": [
        "tests/unit/client/test_queue_limit.py::test_without_one_there_is_none",
        "tests/unit/client/test_queue_limit.py::test_it_refuses_at_every_broker_and_shows_in_the_declaration_and_in_the_status",
        "tests/unit/protocol/wiring/test_default_limit.py::test_who_names_no_limit_has_the_clusters",
        "tests/unit/protocol/wiring/test_default_limit.py::test_a_cluster_goes_on_with_another_default_and_its_queues_are_the_same",
    ],
    "Who wants no limit there names a large one": [
        "tests/unit/client/test_queue_limit.py::test_it_refuses_at_every_broker_and_shows_in_the_declaration_and_in_the_status",
    ],
    "Producers are held back before that": [
        "tests/unit/client/test_limits.py::test_a_producer_is_held_back_sees_it_and_goes_on",
        "tests/unit/protocol/queue/test_producer_flow.py::test_it_stops_above_one_threshold_and_goes_on_below_the_other",
        "tests/unit/conversations/test_held_back.py::test_a_process_dies_meanwhile",
    ],
    "So a sender stops at its capacity": [
        "tests/unit/client/test_limits.py::test_a_producer_is_held_back_sees_it_and_goes_on",
        "tests/unit/client/test_limits.py::test_a_producer_is_held_back_sees_it_and_goes_on",
        "tests/unit/client/test_limits.py::test_who_waits_too_long_is_told_why",
    ],
    "Deleting the queue lets its senders go on": [
        "tests/unit/client/test_limits.py::test_a_queue_that_is_deleted_lets_its_producers_go",
    ],
    "A ring holds so much and no more": [
        "tests/unit/client/test_rings.py::test_the_oldest_goes_on_every_replica_and_a_late_accept_is_lost",
    ],
    "When others come the oldest goes": [
        "tests/unit/client/test_rings.py::test_the_oldest_goes_on_every_replica_and_a_late_accept_is_lost",
        "tests/unit/protocol/queue/test_ring.py::test_bytes_are_limited_with_so_many_more_for_each_message",
    ],
    "RabbitMQ's x-max-length, x-max-length-bytes and x-overflow=drop-head": [
        "tests/unit/protocol/queue/test_settings.py::test_definitions_that_mean_the_same_are_the_same",
        "tests/unit/protocol/queue/test_settings.py::test_the_same_queue_in_other_words_is_there_already_and_another_is_refused",
    ],
    "Priorities: in a queue with priorities=10": [
        "tests/unit/client/test_kinds.py::test_the_highest_priority_goes_first",
        "tests/unit/protocol/queue/test_priority.py::test_the_highest_goes_first_and_in_a_level_the_oldest",
        "tests/unit/protocol/queue/test_priority.py::test_a_copy_goes_on_in_the_same_order",
    ],
    "Messages have priorities 0 to 9, and 4": [
        "tests/unit/protocol/queue/test_priority.py::test_fewer_levels_than_priorities_keep_the_middle_apart",
    ],
    "RabbitMQ's x-max-priority has a level": [
        "tests/unit/protocol/queue/test_priority.py::test_the_other_rule_has_a_level_for_each_priority_and_none_is_the_lowest",
    ],
    "With fairshare=5 five messages of a level": [
        "tests/unit/client/test_kinds.py::test_lower_levels_have_their_shares",
        "tests/unit/protocol/queue/test_shares.py::test_all_spellings_of_a_share_are_one",
    ],
    "The turns are counted in the queue's stream": [
        "tests/unit/protocol/queue/test_shares.py::test_the_next_consumer_and_the_next_owner_go_on_counting",
        "tests/unit/protocol/queue/test_shares.py::test_the_stream_counts_as_the_owner_does",
    ],
    "From a full ring the lowest level goes": [
        "tests/unit/protocol/queue/test_priority.py::test_from_a_full_ring_the_lowest_level_goes_there_the_oldest",
    ],
    "Browsers see a queue in the order of arrival": [
        "tests/unit/client/test_kinds.py::test_the_highest_priority_goes_first",
    ],
    "Last values: in a queue with last_value_key": [
        "tests/unit/client/test_kinds.py::test_only_the_last_value_of_each_key_waits",
        "tests/unit/protocol/queue/test_last_value.py::test_what_is_held_stays_until_it_is_settled",
        "tests/unit/protocol/queue/test_last_value.py::test_what_comes_back_goes_if_there_is_a_newer_one",
    ],
    "Messages without the header have the empty value together": [
        "tests/unit/protocol/queue/test_last_value.py::test_no_key_is_the_empty_key_and_numbers_are_their_text",
    ],
    "Message groups: in a queue with group_key": [
        "tests/unit/client/test_kinds.py::test_a_group_is_of_one_consumer_at_a_time",
    ],
    "A group belongs to the consumer that holds one": [
        "tests/unit/client/test_kinds.py::test_a_group_is_of_one_consumer_at_a_time",
        "tests/unit/protocol/queue/test_groups.py::test_a_group_is_of_one_consumer_until_it_has_settled_all_it_holds",
        "tests/unit/protocol/queue/test_groups.py::test_what_others_hold_elsewhere_is_theirs",
        "tests/unit/protocol/queue/test_groups.py::test_a_group_goes_in_order_whoever_passed_over_it",
    ],
    "What waits for that blocks its own group only": [
        "tests/unit/protocol/queue/test_groups.py::test_what_waits_blocks_its_own_group_only",
        "tests/unit/protocol/queue/test_groups.py::test_what_waits_in_a_blocked_group_is_looked_at_once",
    ],
    "Messages without the header are one group together": [
        "tests/unit/protocol/queue/test_groups.py::test_no_group_is_a_group",
    ],
    'Selectors: session.receiver("orders", selector=': [
        "tests/unit/client/test_selectors.py::test_a_receiver_gets_what_it_wants_and_the_rest_stays",
        "tests/unit/client/test_selectors.py::test_another_broker_is_told",
        "tests/unit/client/test_selectors.py::test_consumers_at_two_brokers_get_each_its_own",
    ],
    'Exclusive receivers: session.receiver("orders", exclusive=True)': [
        "tests/unit/client/test_exclusive.py::test_one_receiver_has_a_queue_alone_at_all_brokers",
        "tests/unit/client/test_exclusive.py::test_exclusive_is_refused_while_others_consume",
        "tests/unit/conversations/test_exclusive.py::test_two_that_ask_at_once_at_two_brokers",
    ],
    "It keeps the queue when its client comes back": [
        "tests/unit/client/test_exclusive.py::test_another_broker_is_told_and_the_claim_is_kept",
        "tests/unit/conversations/test_exclusive.py::"
        "test_the_claim_goes_with_the_broker_and_not_with_the_sequencer_or_the_replica",
    ],
    "When it is closed, or its connection or broker is over": [
        "tests/unit/conversations/test_exclusive.py::test_who_goes_leaves_it_to_the_next",
        "tests/unit/client/test_exclusive.py::test_the_claim_goes_with_the_connection",
    ],
    "Single active consumer: of the consumers of a queue": [
        "tests/unit/client/test_single_active.py::test_the_first_gets_all_and_the_next_in_order_takes_over",
        "tests/unit/client/test_single_active.py::test_what_it_held_comes_to_the_next_before_what_is_behind_it",
        "tests/unit/conversations/test_single_active.py::test_the_first_that_came_gets_all_at_whatever_broker",
        "tests/unit/conversations/test_single_active.py::"
        "test_the_next_comes_when_a_broker_dies_and_not_when_a_sequencer_does",
    ],
    "One whose client comes back at another broker before its": [
        "tests/unit/conversations/test_single_active.py::"
        "test_who_comes_back_elsewhere_before_its_broker_notices_is_first_still",
    ],
    "The others are attached, and hear that there is nothing": [
        "tests/unit/conversations/test_single_active.py::test_who_is_not_first_is_told_at_once_that_there_is_nothing",
    ],
    "Consumer priorities: of the consumers at one broker": [
        "tests/unit/client/test_ranks.py::test_the_higher_one_gets_all_while_it_has_credit",
        "tests/unit/client/test_ranks.py::test_another_broker_is_told",
        "tests/unit/protocol/queue/test_ranks.py::test_the_higher_one_first_while_it_has_credit",
    ],
    "The language is JMS's subset of SQL-92": [
        "tests/unit/protocol/queue/test_selector.py::test_what_it_says",
        "tests/unit/protocol/queue/test_selector.py::test_the_truth_tables",
    ],
    "A consumer looks at each message once": [
        "tests/unit/protocol/queue/test_selection.py::test_each_gets_what_it_wants_and_looks_once",
    ],
    "A bad selector is refused, with the column": [
        "tests/unit/client/test_selectors.py::test_a_bad_selector_harms_nobody_else",
        "tests/unit/client/test_selectors.py::test_a_queue_with_groups_has_none_but_for_browsers",
    ],
    "Browsers have selectors on every queue": [
        "tests/unit/client/test_selectors.py::test_a_queue_with_groups_has_none_but_for_browsers",
        "tests/unit/client/test_selectors.py::test_browse_and_the_mode",
    ],
    "Fairness: in a queue with fair_key": [
        "tests/unit/client/test_kinds.py::test_a_burst_of_one_keeps_no_other_waiting",
        "tests/unit/protocol/queue/test_turns.py::test_values_take_turns_and_each_goes_in_its_order",
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
    "It goes on in its own cluster only": [
        "tests/unit/client/sync/test_reconnect.py::test_a_broker_of_another_cluster_does_not_take_over",
        "tests/unit/client/sync/test_reconnect.py::test_where_only_another_cluster_answers_the_error_says_so",
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
    "Memory has a watermark: while the processes": [
        "tests/cluster/test_memory_watermark.py::test_who_only_sends_is_told_why_and_consumers_make_room",
        "tests/unit/conversations/test_memory_watermark.py::test_what_adds_to_it_waits_and_what_frees_it_goes_on_and_senders_hear_why",
        "tests/unit/conversations/test_memory_watermark.py::test_the_brokers_of_one_host_have_equal_parts_of_their_share",
        "tests/unit/actors/members/test_memory.py::test_the_memory_of_a_container_counts_if_it_is_less",
        "tests/unit/client/test_stopped.py::test_who_waits_too_long_is_told_why_and_all_is_there_when_consumers_have_made_room",
    ],
    "mantamq up --memory-watermark 25%, or 2GiB for": [
        "tests/unit/actors/test_start_cluster.py::test_each_flag_of_up_has_its_place",
        "tests/unit/actors/test_start_cluster.py::test_each_argument_has_its_place",
        "tests/unit/conversations/test_memory_watermark.py::test_without_a_watermark_or_below_it_nothing_is_held_back",
    ],
    "What comes within half a second": [
        "tests/cluster/test_memory_watermark.py::test_who_only_sends_is_told_why_and_consumers_make_room",
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
    "Each is an alert with a name": [
        "tests/unit/actors/supervisor/test_reasons.py::test_each_name_can_be_produced",
        "tests/unit/actors/supervisor/test_reasons.py::test_the_page_of_alerts_is_what_the_program_says",
        "tests/unit/client/cli/test_status.py::test_check_alert_is_1_while_it_is_on_and_says_what_to_do",
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
SURVIVED: dict[str, list[str]] = {
    "a process: broker, replica, sequencer, store, supervisor": [
        "tests/cluster/test_embedded.py::test_any_actor_of_an_embedded_cluster_may_die",
        "tests/unit/actors/supervisor/test_stores_fail.py::test_a_store_that_dies_takes_its_group_along_and_that_comes_back_with_its_log",
        "tests/unit/conversations/test_stored_queues.py::test_a_replica_that_dies_alone_gives_its_queue_with_its_log",
    ],
    "a node, one of three or two of five; with its disk or without": [
        "tests/hosts/test_spread.py::test_a_host_dies_and_comes_back",
        "tests/unit/conversations/test_stored_brokers.py::test_a_broker_that_comes_back_votes_at_once",
        "tests/unit/conversations/test_stored_brokers.py::test_a_broker_without_its_disk_begins_anew_and_what_it_was_told_is_kept",
    ],
    "a majority at once, and their disks come back": [
        "tests/unit/conversations/test_losing.py::test_all_replicas_die_so_the_queue_goes_and_everybody_hears_it",
        "tests/unit/conversations/test_losing.py::test_whoever_still_has_it_keeps_it_until_an_operator_says_so",
        "tests/unit/conversations/test_losing.py::test_a_durable_queue_is_only_given_up_by_an_operator_who_says_so",
        "tests/unit/protocol/supervisor/test_stores.py::test_fewer_than_a_majority_wait_however_long",
    ],
    "everything at once: power cut, SIGKILL, mantamq down": [
        "tests/unit/actors/supervisor/test_stored_cluster.py::test_a_cluster_begins_and_goes_on_after_a_power_cut",
        "tests/unit/actors/supervisor/test_stored_cluster.py::test_a_cluster_that_is_stopped_leaves_clean_stores_of_one_stop",
        "tests/cluster/test_store.py::test_what_is_complete_is_there_and_what_was_accepted_is_not",
    ],
    "a majority's disks": [
        "tests/store/offline/test_recover.py::test_the_survivor_leads_alone_and_goes_on_with_what_was_declared",
        "tests/store/offline/test_recover.py::test_transient_queues_are_lost_and_durable_ones_stay",
        "tests/unit/protocol/supervisor/test_stores.py::test_all_here_and_too_few_with_a_log_is_refused",
    ],
}
"""What ends, by the first cell of its row in "What holds" -> the tests of what is said to stay and to be gone then."""
ON_PAGE: dict[str, list[str]] = {
    "mantamq up serves a page of the cluster on loopback": [
        "tests/unit/actors/test_start_cluster.py::test_where_the_page_is_to_be",
        "tests/unit/actors/test_start_cluster.py::test_each_flag_of_up_has_its_place",
        "tests/unit/management/test_server.py::test_a_port_that_is_taken_is_replaced_and_said_so",
        "tests/cluster/test_management.py::test_the_page_is_replaced_where_it_was_and_status_names_it_while_it_is_away",
    ],
    "It shows what RabbitMQ's does": [
        "tests/unit/management/test_pages.py::test_each_page_is_there_and_runs_nothing_but_our_scripts",
        "tests/unit/management/test_pages.py::test_a_queue_has_its_figures_bindings_replicas_and_moves",
        "tests/unit/management/test_pages.py::test_who_is_held_back_by_what_is_said",
        "tests/unit/management/test_events.py::test_the_newest_events_are_shown_and_those_which_come_are_in_the_next_look",
        "tests/unit/management/test_view.py::test_a_lock_that_went_on_is_a_move_and_goes_after_a_minute",
        "tests/unit/management/test_view.py::test_members_and_replicas_are_those_of_the_status",
    ],
    "Messages can be published, browsed, moved, redriven and purged there.": [
        "tests/unit/management/test_forms.py::test_a_form_does_its_deed_and_says_what_it_came_to",
        "tests/unit/management/test_forms.py::test_what_takes_away_names_that_and_does_it_when_one_is_sure",
    ],
    "By the same port there is an HTTP API": [
        "tests/unit/management/http/test_rabbitmqadmin.py::test_what_it_lists_and_shows",
        "tests/unit/management/http/test_rabbitmqadmin.py::test_what_it_does",
        "tests/unit/management/http/test_answers.py::test_a_queue_has_rabbitmqs_names",
        "tests/unit/management/http/test_fuzz.py::test_the_description_has_every_operation_once",
        "tests/unit/management/metrics/test_exposition.py::test_a_scrape_has_every_metric_with_kind_and_help",
        "tests/unit/actors/members/test_ray_metrics.py::test_ray_has_the_same_metrics",
        "tests/unit/management/test_page.py::test_who_asks_for_health_without_a_token_has_nobody_looked_at",
        "tests/unit/management/test_watcher.py::test_ten_seconds_are_never_passed_without_a_look",
        "tests/unit/management/test_watcher.py::test_nobody_watches_and_it_looks_each_ten_seconds",
    ],
    "mantamq grafana export DIR writes dashboards. --alerts-to URL posts": [
        "tests/unit/client/cli/test_grafana.py::test_dashboards_are_written_to_a_directory_that_is_made",
        "tests/unit/management/test_alert_sinks.py::test_what_is_on_is_told_once_and_its_end_when_it_stays_away",
        "tests/unit/management/test_alert_sinks.py::test_a_change_is_posted_as_json_with_a_text_for_people",
    ],
    "With --token all of it needs that token": [
        "tests/unit/management/test_page.py::test_with_a_token_nothing_is_told_without_it_but_whether_all_is_well",
        "tests/unit/management/test_pages.py::test_who_has_not_logged_in_sees_a_page_for_that_and_nothing_else",
        "tests/unit/management/http/test_access.py::test_without_the_token_nobody_may_anything",
        "tests/unit/management/http/test_access.py::test_it_does_not_listen_elsewhere_without_a_token",
        "tests/unit/management/http/test_access.py::test_another_site_can_change_nothing",
        "tests/unit/management/test_pages.py::test_a_page_of_another_site_changes_nothing_and_reads_nothing",
    ],
    "It is no part of the cluster": [
        "tests/cluster/test_management.py::test_the_page_is_replaced_where_it_was_and_status_names_it_while_it_is_away",
        "tests/unit/actors/supervisor/test_launcher.py::test_a_page_that_comes_back_is_where_it_was_unless_its_port_was_named",
        "tests/unit/management/test_page.py::test_what_is_wrong_with_the_page_is_a_warning_and_no_complaint",
        "tests/unit/management/test_page.py::test_a_page_that_cannot_start_says_why_and_when_it_is_tried_again",
        "tests/unit/actors/supervisor/test_parts.py::test_nobody_waits_while_a_page_that_could_not_start_has_its_pause",
    ],
    "What is changed by it, or refused, is a line of its log and a row of kind operated in the event table": [
        "tests/unit/management/test_page.py::test_each_deed_is_a_line_of_the_log_whatever_is_in_it",
        "tests/unit/management/test_deeds.py::test_each_deed_is_told_with_who_and_how_it_went",
        "tests/unit/management/test_audit_rows.py::test_a_deed_is_a_row_that_says_who_did_what_from_where_and_how_it_went",
        "tests/unit/management/test_audit_rows.py::test_deeds_wait_until_they_are_on_disk_and_are_in_the_table_once",
        "tests/unit/management/test_page.py::test_what_is_wanted_of_it_becomes_a_row_of_the_event_table_though_it_is_refused_and_the_page_ends",
    ],
}
"""How a sentence of "The page." begins -> the tests that keep it."""
ON_DISK: dict[str, list[str]] = {
    "mantamq up keeps a store: the wiring and durable queues": [
        "tests/unit/actors/test_start_cluster.py::test_up_keeps_nothing_with_memory_and_one_directory_for_each_namespace",
        "tests/unit/actors/supervisor/test_stored_cluster.py::test_a_cluster_begins_and_goes_on_after_a_power_cut",
    ],
    "It says who it waits for": [
        "tests/unit/actors/supervisor/test_store_start.py::test_a_late_one_is_waited_for",
        "tests/unit/actors/supervisor/test_store_start.py::test_a_restart_begins_nothing",
        "tests/store/test_identity.py::test_another_brokers_or_clusters_store_is_refused",
    ],
    'A program\'s start_cluster(...) and connect("local") keep nothing': [
        "tests/unit/actors/test_start_cluster.py::test_the_arguments_and_their_defaults_are_those_that_programs_were_written_for",
    ],
    "mantamq down closes stores clean": [
        "tests/unit/actors/supervisor/test_stored_cluster.py::test_a_cluster_that_is_stopped_leaves_clean_stores_of_one_stop",
        "tests/unit/actors/supervisor/test_stored_cluster.py::test_a_stop_in_a_hurry_closes_nothing",
        "tests/unit/conversations/test_clean_stops.py::test_nothing_stays_in_anybodys_hands",
    ],
    "Which disks.": [
        "tests/store/test_power_cuts.py::test_what_killed_processes_had_flushed_is_there_after_a_power_cut",
    ],
    "Local ones that flush when they say so": [
        "tests/store/test_power_cuts.py::test_what_killed_processes_had_flushed_is_there_after_a_power_cut",
    ],
    "A disk or a virtual machine that confirms a flush and has not made it": [
        "tests/simulation/test_simulation.py::test_planted_bugs_are_found",  # one of them is such a disk
    ],
    "Directories on a network are refused.": [
        "tests/store/test_identity.py::test_a_directory_on_the_network_is_refused",
    ],
    "Never put back a copy of a store": [
        "tests/unit/conversations/test_stored_brokers.py::test_a_log_that_is_too_old_is_given_up",
        "tests/unit/protocol/supervisor/test_stores.py::test_of_two_copies_neither_counts",
    ],
    "Empty the directory instead": [
        "tests/unit/conversations/test_stored_brokers.py::test_a_broker_without_its_disk_begins_anew_and_what_it_was_told_is_kept",
    ],
    "mantamq store list shows whose stores are here": [
        "tests/unit/client/cli/test_store.py::test_the_list_for_scripts_has_all",
        "tests/unit/client/cli/test_store.py::test_verify_names_what_is_damaged",
        "tests/unit/client/cli/test_store.py::test_the_dump_has_a_line_for_each_record",
        "tests/store/offline/test_recover.py::test_messages_of_durable_queues_are_there_and_what_others_held_is_given_again",
    ],
    "mantamq stat --stores has sizes": [
        "tests/unit/client/cli/test_status.py::test_the_stores_have_a_row_each_and_fit_eighty_columns",
    ],
}
"""How a sentence of "On disk" begins -> the tests that keep it."""

ON_LOGS: dict[str, list[str]] = {
    "Each process writes a line for each change of the cluster's state": [
        "tests/unit/actors/supervisor/test_lines_of_a_cluster.py::test_each_change_has_one_line",
        "tests/unit/test_log_table.py::test_the_page_has_every_line_and_no_other",
    ],
    "mantamq up --log-format json": [
        "tests/unit/actors/test_process_logs.py::test_a_line_of_json_has_who_where_and_all_keys",
        "tests/unit/actors/test_process_logs.py::test_a_process_writes_from_its_level_on_and_once",
    ],
}
"""How a sentence of "Logs" begins -> the tests that keep it."""


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
        found += _sentences(_plain(item))
    return found


def rows(readme: str, section: str = "What holds") -> list[str]:
    """The first cells of a section's table, without marks and the head."""
    body = readme.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in body.splitlines() if line.startswith("|")]
    return [_plain(cell) for cell in cells[2:]]


def paragraph(readme: str, begins: str) -> list[str]:
    """The sentences of a paragraph that begins with this word in bold, and of the list behind it."""
    body = readme.partition(f"\n**{begins}** ")[2]
    end = re.search(r"\n\n(?!- )", body)
    text = body[: end.start()] if end else body
    return [sentence for item in re.split(r"^- ", text, flags=re.M) for sentence in _sentences(_plain(item))]


def _plain(text: str) -> str:
    return " ".join(re.sub(r"\*\*|`|(?<!\w)\*|\*(?!\w)", "", text).split())


def _sentences(plain: str) -> list[str]:
    """A sentence begins with a capital, or with a command."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z]|mantamq )", plain)


def unkept(readme: str, promises: dict[str, list[str]], root: Path = ROOT, said: list[str] | None = None) -> list[str]:
    """What is wrong between the promises and the tests, a sentence each. `said`: other sentences than the list's."""
    wrong: list[str] = []
    said = sentences(readme) if said is None else said
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
