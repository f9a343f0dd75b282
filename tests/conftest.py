"""For all tests: signals are as a shell's user has them."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Ctrl-C is not ignored, nor by the programs that tests start and interrupt.

    Whoever starts the tests in the background (`./test &` in a script) has SIGINT ignored by the
    shell (POSIX 2.11), and programs inherit that: those that tests send it would never end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
