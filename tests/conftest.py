"""For all tests: a busy machine is no failure, so Hypothesis sets no deadline; pytest-timeout catches what hangs."""

from hypothesis import settings

settings.register_profile("mantamq", deadline=None)
settings.load_profile("mantamq")
