"""Handles Ctrl-C in all tools, and SIGTERM in tools that have work to finish before they exit."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

received = 0
"""The number of the signal that has ended the command, or 0. Python loses the exception of a signal in some places."""


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM. The tool ends as after Ctrl-C, but with another exit code."""


def finish_on_sigterm() -> None:
    """Makes SIGTERM end a tool as Ctrl-C does: the tool waits for the acknowledgement of its records and leaves its
    group."""
    signal.signal(signal.SIGTERM, _terminate)


def raise_on_sigint() -> None:
    """Makes SIGINT raise KeyboardInterrupt, as Python's own handler does."""
    signal.signal(signal.SIGINT, _interrupt)


def _terminate(number: int, _frame: FrameType | None) -> None:
    global received
    received = number
    raise Terminated


def _interrupt(number: int, _frame: FrameType | None) -> None:
    global received
    received = number
    raise KeyboardInterrupt


@contextmanager
def asyncio_handles_sigint() -> Iterator[None]:
    """Lets asyncio cancel the main task after SIGINT. asyncio does so only if it finds Python's own handler."""
    if signal.getsignal(signal.SIGINT) is not _interrupt:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        raise_on_sigint()


@contextmanager
def cancelled_on_sigterm() -> Iterator[None]:
    """Makes SIGTERM cancel the current task, as Ctrl-C does, so that the task can still use its connections to clean
    up.

    If SIGTERM has cancelled the task, raises Terminated at the end of the `with` block. Needs a running event loop.
    """
    import asyncio  # here, because tools without coroutines start faster without this module

    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    received = False

    def cancel() -> None:
        nonlocal received
        received = True
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, cancel)
    try:
        yield
    except asyncio.CancelledError:
        if received:
            raise Terminated from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
