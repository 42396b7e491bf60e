"""Bugs planted on purpose, one line each: the simulation must find every one within a small budget of seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.broker.requests import Requests
from mantamq.protocol.broker.senders import Senders
from mantamq.protocol.broker.session import Session
from mantamq.protocol.lock.ownership import OwnershipMachine
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.queue.acquisitions import Acquisitions
from mantamq.protocol.queue.applied import Applied
from mantamq.protocol.queue.credit import CreditBalance
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.ranges import RangeSet, runs
from mantamq.protocol.replica import machine as replica_machine
from mantamq.protocol.replica.consumers import QueueConsumers
from mantamq.protocol.replica.dead_letters import DeadLetters
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.replica.routes import rule_of_consumers
from mantamq.protocol.sequencer import machine as sequencer_machine
from mantamq.protocol.sequencer import stream as sequencer_stream
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.sequencer.patient_entries import PatientEntries
from mantamq.protocol.sequencer.requests import RequestBook
from mantamq.protocol.wire.events import Own, encode_event
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import Request
from mantamq.protocol.wire.queue_frames import OwnerIs, Settle, Settled, Unhost

Patch = pytest.MonkeyPatch


def patch_rule(patch: Patch, frame: type[Frame], function: Any) -> None:
    """Replace what a replica does on a frame: its rules are bound in a table."""
    patch.setattr(ReplicaMachine, replica_machine._RULES[frame].__name__, function)
    patch.setitem(replica_machine._RULES, frame, function)


def patch_settle(patch: Patch, function: Any) -> None:
    """Replace what a queue's consumers do on a `Settle`: the rule is bound in the replica's table."""
    patch.setitem(replica_machine._RULES, Settle, rule_of_consumers(function))


def commit_on_one_ack(patch: Patch) -> None:
    patch.setattr(sequencer_stream, "held_by_majority", lambda voters, held: max(held.values(), default=0))


def learner_commits_alone(patch: Patch) -> None:
    def learned(self: Any) -> int:
        return self._sure if self.quorum_needed is not None else 0

    patch.setattr(Keeper, "_learned", learned)


def acquire_without_grant(patch: Patch) -> None:
    run = Dispatcher.run
    patch.setattr(Dispatcher, "run", lambda self, acquire, numbers: run(self, True, numbers))


def hand_over_before_the_acquires(patch: Patch) -> None:
    gather = QueueConsumers.gather

    def late(self: Any) -> None:
        replica = self._outbox
        replica.late = not getattr(replica, "late", False)
        if replica.late and self.settlements.acquires:
            replica.dirty[self._id] = None
            return
        gather(self)

    patch.setattr(QueueConsumers, "gather", late)


def apply_uncommitted(patch: Patch) -> None:
    append = Keeper.append

    def eager(self: Any, frame: Any) -> Any:
        import msgspec

        return append(self, msgspec.structs.replace(frame, commit=frame.previous + len(frame.entries)))

    patch.setattr(Keeper, "append", eager)


def stale_accept_counts(patch: Patch) -> None:
    def settle(self: Any, event: Any) -> Any:
        settled: list[tuple[int, int]] = []
        for _, first, last in runs(event.runs):
            for held in self.values():
                settled += held.within(first, last)
                held.remove(first, last)
        for key in [key for key, held in self.items() if not held]:
            del self[key]
        return settled, []

    local = QueueConsumers.settle

    def trusting(self: Any, frame: Any) -> None:
        subscription = self._dispatcher.subscriptions.get(frame.sub)
        if subscription is not None:
            for acquisition, first, last in runs(frame.runs):
                subscription.held.setdefault(acquisition, RangeSet()).add(first, last)
        local(self, frame)

    patch.setattr(Acquisitions, "settle", settle)
    patch_settle(patch, trusting)


def deliver_after_accept(patch: Patch) -> None:
    def accept(self: Any, event: Any) -> Applied:
        settled, lost = self.acquired.settle(event)
        self._return(settled, False)
        return Applied(True, lost, settled)

    patch.setattr(QueueState, "_accept", accept)


def no_number_table(patch: Patch) -> None:
    request = SequencerMachine.request

    def twice(self: Any, peer: str, frame: Any) -> Any:
        result = request(self, peer, frame)
        if frame.number % 7 == 0:
            origin = self.requests._origins[frame.origin]
            origin.last -= 1
            origin.unanswered.discard(frame.number)
            request(self, peer, frame)
        return result

    patch.setitem(sequencer_machine._RULES, Request, twice)


def applied_out_of_order(patch: Patch) -> None:
    append = Keeper.append

    def shuffled(self: Any, frame: Any) -> Any:
        committed, refusal = append(self, frame)
        return (committed[::-1] if self.voter == "b3" else committed), refusal

    patch.setattr(Keeper, "append", shuffled)


def lost_release(patch: Patch) -> None:
    cancel = QueueConsumers.cancel

    def forgetful(self: Any, frame: Any) -> None:
        if frame.sub in self._dispatcher.subscriptions:
            self._dispatcher.subscriptions[frame.sub].held.clear()
        cancel(self, frame)

    patch.setattr(QueueConsumers, "cancel", forgetful)


def two_grants(patch: Patch) -> None:
    decide = OwnershipMachine._decide

    def generous(self: Any, name: str, queue: Any, effects: Any) -> None:
        decide(self, name, queue, effects)
        if queue.owner and len(queue.interested) > 1:
            other = sorted(set(queue.interested) - {queue.owner})[0]
            self.submitter.gather(name, encode_event(Own(other, queue.grant + 1, queue.owner)))

    patch.setattr(OwnershipMachine, "_decide", generous)


def complete_before_commit(patch: Patch) -> None:
    request = Requests.request

    def hasty(self: Any, parts: Any, done: Any) -> int:
        number = request(self, parts, lambda: None)
        if all(stream != "cluster" for stream, _ in parts):
            done()
        else:
            self._waiting[number] = done
        return number

    patch.setattr(Requests, "request", hasty)


def settled_before_commit(patch: Patch) -> None:
    settle = QueueConsumers.settle

    def hasty(self: Any, frame: Any) -> None:
        settle(self, frame)
        self._outbox.send(self._outbox.broker, Settled(frame.queue, frame.sub, frame.number, []))

    patch_settle(patch, hasty)


def credit_forgotten(patch: Patch) -> None:
    patch.setattr(CreditBalance, "take", lambda self, messages, size: None)


def dead_lettered_twice(patch: Patch) -> None:
    """The owner that finishes a batch of dead letters does not know the name it began under."""
    due = DeadLetters.due

    def twice(self: Any) -> Any:
        asked = due(self)
        return [*asked, *(msgspec.structs.replace(frame, id=frame.id + 1_000_000) for frame in asked[-1:])]

    patch.setattr(DeadLetters, "due", twice)


def pointer_stays_behind(patch: Patch) -> None:
    """A returned message moves no pointer back: nobody sees it again."""
    patch.setattr(Dispatcher, "returned", lambda self, positions: None)


def hand_over_is_forgotten(patch: Patch) -> None:
    """The owner goes on delivering after it has handed over."""
    submit = ReplicaMachine.submit

    def greedy(self: Any, stream: str, event: Any, patient: bool = False) -> Any:
        if type(event) is Own:
            self.queues[stream].lock.held = True
        return submit(self, stream, event, patient)

    patch.setattr(ReplicaMachine, "submit", greedy)


def wiring_complete_early(patch: Patch) -> None:
    """A declare completes when it is committed, not when every broker shows it."""
    answer = RequestBook.answer

    def hasty(self: Any, stream: Any) -> None:
        members, self._order.members = self._order.members, []
        answer(self, stream)
        self._order.members = members

    patch.setattr(RequestBook, "answer", hasty)


def vanished_client_keeps(patch: Patch) -> None:
    """A connection that breaks gives nothing back."""

    ended = BrokerMachine._end

    def end(self: Any, session: Session, code: str = "", text: str = "") -> None:
        for link in session.receivers.values():
            del self.receivers.subs[link.sub]
            self.consumers.end(link)
        session.receivers.clear()
        ended(self, session, code, text)

    patch.setattr(BrokerMachine, "_end", end)


# ---- what the simulator has found in the machines themselves, planted again


class _Forgetful(dict[Any, Any]):
    """Keeps nothing."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def lost_held_stays_lost(patch: Patch) -> None:
    """A replica tells a returning Ownership of its own grants only."""
    peer_up = ReplicaMachine._peer_up

    def modest(self: Any, peer: str) -> None:
        before = len(self.effects)
        peer_up(self, peer)
        own = [e for e in self.effects[before:] if type(e.frame) is not OwnerIs or e.frame.broker == self.broker]
        self.effects[before:] = own

    patch.setattr(ReplicaMachine, "_peer_up", modest)


def lost_drop_report_stays_lost(patch: Patch) -> None:
    born = ReplicaMachine.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        born(self, *arguments, **named)
        self._unhosted = _Forgetful()

    patch.setattr(ReplicaMachine, "__init__", init)


def starved_consumer_keeps_the_lock(patch: Patch) -> None:
    """Credit too small for the next message counts as interest."""
    patch.setattr(Dispatcher, "_fits", lambda self, subscription: True)


def crossing_detach_closes(patch: Patch) -> None:
    """A `Detach` that crosses the broker's own `Detached` is taken for a broken rule."""
    detach = Senders.detach

    def strict(self: Any, session: Session, handle: int) -> bool:
        session.ended.clear()
        return detach(self, session, handle)

    patch.setattr(Senders, "detach", strict)


def purge_of_a_deleted_queue_is_not_answered(patch: Patch) -> None:
    unhost = ReplicaMachine._unhost

    def silent(self: Any, peer: str, frame: Any) -> None:
        if frame.queue in self.queues:
            self.queues[frame.queue].own.clear()
        unhost(self, peer, frame)

    patch_rule(patch, Unhost, silent)


def patience_has_no_end(patch: Patch) -> None:
    """An accept waits for the next message, also for one that never comes."""
    due = PatientEntries.due

    def waits_on(self: PatientEntries, now_ms: int) -> dict[str, None]:
        found = {} if self.waiting and self.due_ms else due(self, now_ms)
        self.due_ms = self.due_ms and 1 << 60
        return found

    patch.setattr(PatientEntries, "due", waits_on)


ALL: dict[str, Callable[[Patch], None]] = {
    function.__name__: function
    for function in (
        commit_on_one_ack, learner_commits_alone, acquire_without_grant, hand_over_before_the_acquires, apply_uncommitted, stale_accept_counts,
        deliver_after_accept, no_number_table, applied_out_of_order, lost_release, two_grants, complete_before_commit,
        settled_before_commit, credit_forgotten, dead_lettered_twice, pointer_stays_behind, hand_over_is_forgotten,
        wiring_complete_early, vanished_client_keeps,
        lost_held_stays_lost,
        lost_drop_report_stays_lost, starved_consumer_keeps_the_lock, crossing_detach_closes,
        purge_of_a_deleted_queue_is_not_answered, patience_has_no_end,
    )
}  # fmt: skip
