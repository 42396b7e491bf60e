"""A broker's own standing in the cluster: blank, a voter, leaving, or out (`design.md` 8, `sequencer.md` K4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..log.quorum import change
from ..wire.events import CLUSTER, AnyEvent, Evict, Member, Rejoin
from ..wire.log_frames import Append, Evicted, Leave, Left, Update, UpdateStart
from ..wire.queue_frames import GiveUp
from ..wiring.wiring import Wiring

if TYPE_CHECKING:
    from .machine import BrokerMachine

LEFT = "this broker has left the cluster"
LEAVING = "this broker leaves the cluster: connect to another member"


class Lifecycle:
    """Of one broker.

    Attributes:
        returned: this incarnation votes, by what is applied; queues declared before may be kept by an earlier one.
        leaving: it has been asked to leave, and serves no clients any more.
        left: brokers it was asked to have taken out, and that are.
    """

    def __init__(self, machine: BrokerMachine, returned: bool) -> None:
        self.machine = machine
        self.returned = returned
        self.leaving = False
        self.left: set[str] = set()
        self._yielded: set[str] = set()  # replicas that hold nothing any more

    def refusal(self) -> str:
        """Why no client is let in now; "" if it may be."""
        if self.leaving:
            return LEAVING
        return "this broker is joining the cluster: connect to another member" if self.machine.keeper.blank else ""

    def needed(self, now_ms: int) -> str:
        """Why this broker may not end, whatever somebody who was cut off believes of it; "" if it may."""
        machine = self.machine
        lease = machine.lease
        serves = machine.view.attached and lease.until_ms and not lease.expired(now_ms)
        return "it serves, and the sequencer that leads has heard of it a moment ago" if serves else ""

    # ---- the wiring's snapshot

    def update(self, peer: str, frame: Update) -> None:
        """Tell a blank broker the wiring; the sequencer passes it on."""
        machine = self.machine
        if frame.stream == CLUSTER and not machine.keeper.blank:
            machine.send(peer, machine.keeper.update(machine.broker, frame.updatee, machine.wiring.snapshot()))

    def restore(self, frame: UpdateStart) -> None:
        machine = self.machine
        keeper = machine.keeper
        if frame.stream != CLUSTER or not keeper.blank or frame.index <= keeper.end:
            return
        keeper.restore(frame)
        if keeper.incs.get(machine.broker) == machine.inc:  # we are back, and had not heard
            keeper.blank, self.returned = False, True
        machine.wiring = Wiring.restore(frame.state)
        machine.management.deleting.restored()
        machine.investiture.ordered()
        machine.members = list(frame.voters)
        machine.wiring_version += 1
        machine.placement.restored()
        machine.needs_ack = True
        machine.send(machine.view.leader, keeper.log_report())

    # ---- the cluster stream

    def begin(self, frame: Append) -> None:
        """A blank broker that is told the stream from its beginning: who voted then."""
        keeper = self.machine.keeper
        if keeper.blank and not frame.previous and frame.voters and not keeper.end:
            self.machine.members = list(frame.voters)

    def note(self, event: AnyEvent) -> None:
        """A committed event may speak of this broker, or of who votes."""
        machine = self.machine
        us, inc = machine.broker, machine.inc
        if type(event) is Evict and event.broker == us and event.inc >= inc:
            machine.retire("this broker was evicted: it was silent for too long")
        elif type(event) is Rejoin:
            self.returned = self.returned or (event.voter, event.inc) == (us, inc)
        elif type(event) is Member:
            change(machine.members, event)
            if event.present:
                self.left.discard(event.broker)
            self.returned = self.returned or (event.present and (event.broker, event.inc) == (us, inc))
            if not event.present and event.broker == us and event.inc >= inc:
                machine.retire(LEFT, left=True)

    def evicted(self, peer: str, frame: Evicted) -> None:
        """We are out: by the leader's word, or by that of a replica of ours which has found it in a queue."""
        machine = self.machine
        if peer in machine.placement.replicas:
            machine.retire(frame.reason)
        else:
            machine.evicted(peer, frame)

    def has_left(self, peer: str, frame: Left) -> None:
        machine = self.machine
        if peer != machine.view.leader:
            return
        if frame.broker == machine.broker:
            machine.retire(LEFT, left=True)
        else:
            self.left.add(frame.broker)

    # ---- leaving

    def drain(self) -> None:
        """Send the clients away, then have the replicas give up what they hold, then ask to be taken out."""
        machine = self.machine
        if machine.members == [machine.broker]:
            return  # nobody is left to keep anything
        if not self.leaving:
            self.leaving = True
            self._yielded.clear()
            machine.moved({broker: at for broker, at in machine.addresses.items() if broker != machine.broker})
            machine.close_all(LEAVING)
            for replica in machine.placement.replicas:
                machine.send(replica, GiveUp())
        self.ask()

    def replica_up(self, replica: str) -> None:
        if self.leaving:
            self.machine.send(replica, GiveUp())

    def yielded(self, replica: str) -> None:
        self._yielded.add(replica)
        self.ask()

    def attached(self) -> None:
        self.ask()

    def ask(self) -> None:
        """Ask to be taken out of all voters, once nothing is held here; again whenever the sequencer may not know."""
        machine = self.machine
        if self.leaving and self._yielded.issuperset(machine.placement.replicas):
            machine.lead(self._leave(machine.broker, machine.inc))

    def dismiss(self, broker: str) -> None:
        machine = self.machine
        if broker != machine.broker:
            machine.lead(self._leave(broker, 0))

    def _leave(self, broker: str, inc: int) -> Leave:
        machine = self.machine
        return Leave(broker, inc, [queue.id for queue in machine.wiring.queues()], machine.keeper.commit)
