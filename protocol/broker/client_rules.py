"""Which part of a broker a client's frame goes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..wire.client_frames import AttachReceiver, AttachSender, Command, Detach, Dispose, Flow, Open, Transfer
from ..wire.frame import Frame
from .connections import Connections
from .exclusive_queues import ExclusiveQueues
from .flow_news import FlowNews
from .management import Management
from .receivers import Receivers
from .senders import Senders
from .session import Session
from .transfers import Transfers


def client_rules(
    connections: Connections, senders: Senders, receivers: Receivers, transfers: Transfers, management: Management,
    news: FlowNews, exclusives: ExclusiveQueues,
) -> dict[type[Frame], Callable[[Session, Any], object]]:  # fmt: skip
    return {
        Open: lambda session, frame: connections.open(session, frame) or exclusives.opened(session),
        AttachSender: lambda session, frame: senders.attach(session, frame) or news.attached(session),
        AttachReceiver: receivers.attach,
        Detach: lambda session, frame: senders.detach(session, frame.handle) or receivers.detach(session, frame.handle),
        Transfer: transfers.transfer,
        Flow: receivers.flow,
        Dispose: receivers.dispose,
        Command: management.run,
    }
