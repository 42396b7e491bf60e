"""`python -m tests.chaos.client {...}`: one client in a process of its own, by its role."""

from __future__ import annotations

import json
import sys

from .load import Alone, Browsing, Client, Receiving, Sending, Task
from .programs import Life, Program
from .takers import Observing, Operating, Pushing, Taking

ROLES: dict[str, type[Client]] = {
    "sender": Sending, "receiver": Receiving, "alone": Alone, "browser": Browsing,
    "taker": Taking, "pusher": Pushing, "observer": Observing, "program": Program, "life": Life,
    "operator": Operating,
}  # fmt: skip


if __name__ == "__main__":
    task = Task(**json.loads(sys.argv[1]))
    ROLES[task.role](task).run()
