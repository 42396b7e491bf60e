"""The supervisor's decisions: the processes it replaces, where processes go, the brokers that join and leave, and
whether it may act at all."""
