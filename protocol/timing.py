"""Times that several rooms must agree on, and the inequalities between them.

A broker serves for less than the silence it is evicted for, so that another owner never serves beside it for long
(`sequencer.md` B4); and a leader's silence is suspected only after several of its beats are missing.
"""

from __future__ import annotations

BEAT_MS = 250
"""How often the leading sequencer says that it leads."""
BROKEN_MS = 250
"""The grace after a link breaks: long enough for a few redials, when only the link broke."""
SUSPECT_MS = 2000
"""A leader silent for longer is suspected; a leader without a link after `BROKEN_MS`."""
LEASE_MS = 2000
"""How long a broker may serve clients after a beat that a majority has answered."""
EVICT_MS = 3000
"""A broker silent for longer is evicted, while a majority answers."""
UPDATE_RETRY_MS = 2000
"""How long a blank replica waits for a sign of its update before another is asked for."""

assert LEASE_MS + BEAT_MS < EVICT_MS and 2 * BEAT_MS < SUSPECT_MS and BROKEN_MS < SUSPECT_MS
