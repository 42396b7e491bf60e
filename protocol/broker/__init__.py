"""The process that serves clients: sessions, transfers, consumers, management, and its own life in the cluster."""
