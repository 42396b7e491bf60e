"""A broker's report of itself: its parts, each asked for what it knows."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ..status.machines import BrokerStatus, WaitingStatus


def status_of(machine: Any) -> BrokerStatus:
    """The broker whose door `machine` is, as it is now."""
    now_ms, flow, view, lease = machine.now_ms, machine.wiring.flow, machine.view, machine.lease
    cluster, placement, lifecycle = machine.cluster, machine.placement, machine.lifecycle
    waits = machine.waits_heard.report(now_ms)
    return BrokerStatus(
        broker=machine.broker, members=dict(machine.connections.addresses), connections=len(machine.sessions),
        queues=len(machine.wiring.queues()), inc=machine.inc, blank=machine.keeper.blank, voters=list(cluster.voters),
        leaving=lifecycle.leaving, left=sorted(lifecycle.left), cut_off=lease.expired(now_ms),
        wiring_index=machine.keeper.commit, uncommitted_bytes=machine.transfers.uncommitted_bytes,
        withheld_bytes=machine.transfers.withheld_bytes, unconfirmed_ms=lease.over_ms(now_ms),
        waiting=[WaitingStatus.of(waiting) for waiting in waits.streams], waiting_more=waits.more,
        waiting_by=waits.by, waiting_role=waits.role, waiting_heard_ms=waits.heard_ms,
        leader_silent_ms=view.silent_ms(now_ms), sequencers=sorted(view.linked), supervisor=machine.office.report(),
        flow_stopped=flow.stopped, flow_stopped_count=flow.count, flow=dict(flow.members),
        condemned=machine.deletions.report(), ballot=list(view.promised), leader=view.leader, attached=view.attached,
        replicas={name: sorted(queues) for name, queues in placement.replicas.items()},
        homeless=sorted(placement.homeless), returning=UNSET if lifecycle.returned or machine.keeper.blank else True,
        stop_left_ms=max(1, lifecycle.stop_left_ms()) if lifecycle.stopping else UNSET,
        queue_limit_bytes=machine.limits.queue_bytes or UNSET, memory_bytes=machine.memory.bytes or UNSET,
        memory_limit_bytes=machine.memory.most_bytes or UNSET, stored=machine.stored,
    )  # fmt: skip
