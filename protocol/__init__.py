"""The rules of the broker as pure, deterministic machines: ``step(input) -> effects``."""
