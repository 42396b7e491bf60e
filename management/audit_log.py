"""A line of the log for each deed of an operator: who, from where, what, and how it went."""

from __future__ import annotations

import logging

from .deeds import Audit

log = logging.getLogger(__name__)


def note(audit: Audit) -> None:
    """Write down a deed, done or refused. Whatever is in its arguments, it is one line."""
    log.info(
        "%(deed)s by %(who)r at %(address)r with %(arguments)r: %(outcome)r",
        {
            "deed": audit.what, "who": audit.who, "address": audit.address, "arguments": audit.arguments,
            "outcome": audit.outcome,
        },
    )  # fmt: skip
