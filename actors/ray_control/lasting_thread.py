"""A thread that lives as long as the program: Ray is started from there.

Ray ties the life of its processes to the *thread* that starts them (Linux: PR_SET_PDEATHSIG), so a Ray started from a
worker thread, as asyncio has them, is killed when that thread ends, although the program goes on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

UNDO_S = 10.0

_lock = threading.Lock()
_work: SimpleQueue[Callable[[], None]] | None = None


def call(
    function: Callable[..., Any],
    *args: Any,
    undo: Callable[[], Any] | None = None,
    undo_s: float = UNDO_S,
    **named: Any,
) -> Any:
    """Call a function in the lasting thread; returns what it returns, raises what it raises.

    Args:
        undo: called when the wait is interrupted (Ctrl-C) and the function comes to its end all the same.
        undo_s: how long that is waited for; later it is undone in the lasting thread.
    """
    done: Future[Any] = Future()

    def work() -> None:
        try:
            done.set_result(function(*args, **named))
        except BaseException as error:
            done.set_exception(error)

    _thread().put(work)
    try:
        return done.result()
    except BaseException:
        if not done.done() and undo is not None:
            with suppress(TimeoutError):
                done.exception(undo_s)
            # Here, if it has come to its end by now; else in that thread, when it does.
            done.add_done_callback(lambda one: undo() if one.exception() is None else None)
        raise


def _thread() -> SimpleQueue[Callable[[], None]]:
    global _work
    with _lock:
        if _work is None:
            _work = SimpleQueue()
            # A daemon, so that it is still there while exit handlers run: those stop the cluster.
            threading.Thread(target=_run, args=(_work,), name="lasting", daemon=True).start()
        return _work


def _run(work: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        work.get()()


def _forget() -> None:
    """A forked child has no such thread."""
    global _lock, _work
    _lock, _work = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
