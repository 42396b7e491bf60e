"""A line of the log for each deed of an operator: who, from where, what, and how it went."""

from __future__ import annotations

import json
import logging

from .deeds import Audit

log = logging.getLogger(__name__)


def note(audit: Audit) -> None:
    """Write down a deed, done or refused. Whatever is in its arguments, it is one line."""
    arguments = json.dumps(audit.arguments, default=str)
    who = json.dumps([audit.who, audit.address])
    log.info("%s by %s with %s: %s", audit.what, who, arguments, json.dumps(audit.outcome))
