"""The traces that messages of some clients are part of: each number has its own, and comes with no other's."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

_CONTEXT = re.compile(r"00-([0-9a-f]{32})-[0-9a-f]{16}-01")


@contextmanager
def part_of_its_trace(number: int) -> Generator[None]:
    """What a traced connection sends meanwhile belongs to this number's trace."""
    context = SpanContext(_trace(number), number + 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    with use_span(NonRecordingSpan(context)):
        yield


def without_its_trace(properties: dict[str, Any] | None, number: int) -> dict[str, Any] | None:
    """What else a message carries, if it is part of its own trace or of none; else all."""
    found = _CONTEXT.fullmatch(str((properties or {}).get("traceparent")))
    if properties is None or found is None or int(found[1], 16) != _trace(number):
        return properties
    return {name: value for name, value in properties.items() if name != "traceparent"} or None


def _trace(number: int) -> int:
    return (number + 1) << 64 | 0xC4A05
