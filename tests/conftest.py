"""For all tests: a busy machine is no failure, so Hypothesis sets no deadline; pytest-timeout catches what hangs."""

import signal

from hypothesis import settings

settings.register_profile("mantamq", deadline=None)
settings.load_profile("mantamq")

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would what they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
