"""Words that nobody else has, as client books make them for clients, moves and queues without a name: here by the seed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def of_seed(seed: int) -> Iterator[None]:
    """Meanwhile `uuid4` takes its chance from the seed, and from nothing that others draw."""
    rng, usual = random.Random(f"tokens of {seed}"), uuid.uuid4
    uuid.uuid4 = lambda: uuid.UUID(int=rng.getrandbits(128), version=4)
    try:
        yield
    finally:
        uuid.uuid4 = usual
