"""Which part of a broker a client's frame goes to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..log.outbox import FollowerOutbox
from ..wire.client_frames import AttachReceiver, AttachSender, Command, Detach, Dispose, Flow, Open, Transfer
from ..wire.frame import Frame
from .cluster_state import ClusterState
from .connections import Connections
from .exclusive_queues import ExclusiveQueues
from .flow_news import FlowNews
from .management import Management
from .on_demand import OnDemand
from .receivers import Receivers
from .senders import Senders
from .session import Session
from .transfers import Transfers


def client_rules(
    connections: Connections, senders: Senders, receivers: Receivers, transfers: Transfers, management: Management,
    news: FlowNews, exclusives: ExclusiveQueues, outbox: FollowerOutbox, cluster: ClusterState,
) -> dict[type[Frame], Callable[[Session, Any], object]]:  # fmt: skip
    on_demand = OnDemand(outbox, cluster, connections, management)

    def attach_sender(session: Session, frame: AttachSender) -> None:
        senders.attach(session, frame)
        news.attached(session)

    def detach(session: Session, frame: Detach) -> None:
        if not senders.detach(session, frame.handle) and not on_demand.detach(session, frame.handle):
            receivers.detach(session, frame.handle)

    return {
        Open: lambda session, frame: connections.open(session, frame) or exclusives.opened(session),
        AttachSender: partial(on_demand.attach, attach_sender),
        AttachReceiver: partial(on_demand.attach, receivers.attach),
        Detach: detach,
        Transfer: transfers.transfer,
        Flow: receivers.flow,
        Dispose: receivers.dispose,
        Command: management.run,
    }
