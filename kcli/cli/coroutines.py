"""Runs the coroutines of commands. Tools without coroutines do not import asyncio, so they start faster."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TypeVar

from kcli.cli.signals import asyncio_handles_sigint

T = TypeVar("T")


def run_coroutine(coroutine: Coroutine[object, None, T]) -> T:
    """Runs a coroutine on a new event loop. Prints the warnings of the log, and at a terminal also the long waits."""
    import asyncio
    import logging

    from kcli.cli.log_lines import OneLine
    from kcli.cli.waits import show_waits

    # As in Kafka's tools-log4j2.yaml, warnings go to stderr in this format.
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.addLevelName(logging.WARNING, "WARN")
    show_waits()
    with asyncio_handles_sigint():
        return asyncio.run(coroutine)
