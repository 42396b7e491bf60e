"""`Empty` and `Full` as programs written for `ray.util.queue` expect them: caught by its names, and by ours.

Imported only where Ray is: everything else in the client works without it.
"""

from __future__ import annotations

from ray.util import queue

from . import errors


class Empty(errors.Empty, queue.Empty):
    """No item came in time."""


class Full(errors.Full, queue.Full):
    """The queue is at its size."""


_OWN: dict[type[errors.MantaError], type[errors.MantaError]] = {errors.Empty: Empty, errors.Full: Full}


def like_rays(error: errors.MantaError) -> errors.MantaError:
    """The same error, of the class that both know."""
    if type(error) not in _OWN:
        return error
    own = _OWN[type(error)](error.text)
    own.__dict__.update(error.__dict__)
    return own
