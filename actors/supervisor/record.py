"""The record of a cluster, as its supervisor knows it. All parts of a supervisor share one; the next supervisor gets a
copy (`supervisor_state.py`)."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from ...protocol.machine import broker_of
from ...protocol.supervisor.change_deeds import LEAVE, Change
from ...protocol.supervisor.changes import Changes
from ...protocol.supervisor.start_pauses import StartPauses
from ...protocol.supervisor.store_failures import StoreFailures
from ..config import ClusterConfig
from .address_book import AddressBook
from .plan import Plan

STARTING = "starting"
"""The stage of a supervisor that knows nothing of the cluster yet: neither has it begun one, nor taken over."""


@dataclass
class ClusterRecord:
    """Attributes:
    cluster: the cluster's id.
    secret: by which its members know each other.
    plan: the cluster as it is wanted.
    book: its actors.
    changes: the change of its members that is under way, and those that are over.
    inherited: the change that the last supervisor had begun, until `changes` has it.
    numbers: kind of actor -> the highest number that one of this kind was given.
    store_failures: of its brokers' stores, in this supervisor's time; the next one is told who is left down.
    page_starts: of the page's process, in this supervisor's time.
    page_address: where the page was when it was started again last, "" if it never was.
    version: rises with each word to the brokers.
    began: when the cluster was started, Unix time.
    stage: what the supervisor is doing: "running" once the cluster is complete, "stopped" at the end.
    notes: what the operator should know of the start: a new store, directories that were refused.
    """

    cluster: str = field(default_factory=lambda: secrets.token_hex(6))
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    plan: Plan = field(default_factory=Plan)
    book: AddressBook = field(default_factory=AddressBook)
    changes: Changes = field(default_factory=Changes)
    inherited: Change | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    store_failures: StoreFailures = field(default_factory=StoreFailures)
    page_starts: StartPauses = field(default_factory=StartPauses)
    page_address: str = ""
    version: int = 0
    began: float = field(default_factory=time.time)
    stage: str = STARTING
    notes: list[str] = field(default_factory=list)

    @property
    def config(self) -> ClusterConfig:
        """The operator's choice."""
        return self.plan.config

    def changing(self) -> str:
        """The broker that joins or leaves, "" for none."""
        change = self.changes.change or self.inherited
        return change.broker if change is not None else ""

    def leaves(self, name: str) -> bool:
        """Whether this is an actor of a broker that leaves."""
        change = self.changes.change
        return change is not None and change.kind == LEAVE and change.broker == broker_of(name)
