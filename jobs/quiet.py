"""What Spark's Java says goes to the user's terminal, less what Ray's library in it tells of its own doings.

That library prints such lines before it knows of any log level, so nothing but leaving them out keeps them from a
progress bar.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

_CHATTER = re.compile(rb"\[\d{4}-\d\d-\d\d [\d:,.]+ [ID] \d+ \d+\] ")
"""How Ray's log begins a line at the levels info and debug."""


def say(line: bytes) -> None:
    """To this process's standard error."""
    os.write(2, line)


def pass_on(source: int, say: Callable[[bytes], object] = say) -> None:
    """Say each line that is read from a file descriptor, but for Ray's chatter, until it ends; closes it."""
    with open(source, "rb", buffering=0) as stream:
        rest = b""
        while data := stream.read(65536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if not _CHATTER.match(line):
                    say(line + b"\n")
        if rest and not _CHATTER.match(rest):
            say(rest)


@contextmanager
def java() -> Generator[None]:
    """A Java that PySpark starts meanwhile is quiet as long as it lives."""
    import pyspark.context

    context: Any = pyspark.context
    launch = context.launch_gateway

    def launch_quietly(conf: Any = None, popen_kwargs: dict[str, Any] | None = None) -> Any:
        read, write = os.pipe()
        threading.Thread(target=pass_on, args=(read,), name="spark-says", daemon=True).start()
        try:
            return launch(conf, {**(popen_kwargs or {}), "stderr": write})
        finally:
            os.close(write)

    context.launch_gateway = launch_quietly
    try:
        yield
    finally:
        context.launch_gateway = launch
