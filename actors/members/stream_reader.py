"""Reads a stream back for the machine that has taken it: its process reads the store's log by itself, in a thread.

    Load(stream, checkpoint, last) -> the records, verified -> Loaded;  one that cannot be read: Loaded(hurt=True)

What takes long of a deep queue (reading it, copying its bodies out, freeing the rest) is done in that thread; the loop
takes over what was made (`QueueState.adopt`). One stream after the other: a thread that reads contends with the loop
for the interpreter, and many would for long. A disk that fails ends the process, as it ends the store's
(`durable.md` 3, 6), and so does whatever else goes wrong: a machine that is not answered would wait for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing

from ...protocol.errors import LocalError, StoreError
from ...protocol.machine import Load, Loaded
from ...protocol.store.host import log_of
from ...protocol.stored.read_back import read_beside
from ...protocol.wire.events import CLUSTER
from ...store.files import Files
from ...store.log.chain import read_before, read_chain
from ...store.log.reader import LogReader
from ...store.shadow_files import system_files
from .shell import DiskFailed, Shell

log = logging.getLogger(__name__)

FREED = 64
"""So many records' bytes are freed without a pause."""


class StreamReader:
    """Args:
    folder: the store's directory.
    shell: of the machine that asks.
    files: the file system; the operating system's if none is named.
    """

    def __init__(self, folder: str, shell: Callable[[], Shell], files: Files | None = None) -> None:
        self._folder = folder
        self._shell = shell
        self._files = files if files is not None else system_files()
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def load(self, wanted: Load) -> None:
        """Begin to read; the shell is given what is found."""
        task = asyncio.get_running_loop().create_task(self._load(wanted), name=f"read {wanted.stream}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self, wanted: Load) -> None:
        shell = self._shell()
        try:
            async with self._turn:
                loaded = await asyncio.to_thread(self._read, wanted)
        except OSError as error:
            shell.fail(DiskFailed(f"{self._folder}: {error}: look after the disk (errno {error.errno})"))
        except Exception as error:  # the machine would wait for ever
            what = f"{self._folder}: reading {wanted.stream} back broke: {error!r}"
            failure = LocalError(f"{what}: this is a defect: report it with the log of this process")
            failure.__cause__ = error
            shell.fail(failure)
        else:
            shell.give(loaded)

    def _read(self, wanted: Load) -> Loaded:
        try:
            with closing(LogReader(self._files, f"{self._folder}/{log_of(wanted.stream)}")) as reader:
                stream, checkpoint = wanted.stream, wanted.checkpoint
                found = read_chain(reader, stream, checkpoint, wanted.last)
                before = read_before(reader, stream, checkpoint, wanted.before_bytes)
                if stream == CLUSTER:
                    return Loaded(stream, found, before=before)
                loaded = read_beside(stream, found, before)
                while loaded.records is not found and found:  # gigabytes: the loop gets its turn in between
                    del found[-FREED:]
                return loaded
        except StoreError as error:
            log.critical(
                "%(directory)s: the log of %(stream)s is of no use: %(reason)s",
                {"directory": self._folder, "stream": wanted.stream, "reason": error.text},
            )
            return Loaded(wanted.stream, [], hurt=True)
