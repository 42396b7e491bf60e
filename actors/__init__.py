"""Ray shells around the machines of `protocol/`: links, timers, placement. No broker rules live here."""
