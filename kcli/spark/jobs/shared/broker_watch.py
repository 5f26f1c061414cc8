"""Watches whether a broker answers while a job runs, because Spark's figures do not change if no broker answers.

A thread of the driver sends a small request every PROBE_SECONDS. The answer needs no permission.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

from kcli.errors import KcliError
from kcli.spark.client.cluster import ClientSettings, Cluster

PROBE_SECONDS = 2.0
"""The seconds between an answer and the next request."""

PATIENCE_SECONDS = 5.0
"""The seconds without an answer after which the figures of a job are unknown. A broker that restarts, or that has a
long pause, may be silent for less."""


class BrokerWatch:
    """Knows since when no broker has answered. Without `settings`, the job reads log directories and needs no broker.

    Use it as a context manager, so that the thread ends with the job.
    """

    def __init__(self, settings: ClientSettings | None) -> None:
        self._settings = settings
        self._over = threading.Event()
        self._answered = time.time()
        """The time of the last answer. Before the first answer, the time at which the job started."""

    def __enter__(self) -> BrokerWatch:
        if self._settings is not None:
            threading.Thread(target=self._probe, args=(self._settings,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The thread may wait for a broker that does not answer, so nothing waits for the thread.
        self._over.set()

    def silence(self) -> str | None:
        """Returns a text if no broker has answered for PATIENCE_SECONDS, and else None."""
        if self._settings is None:
            return None
        silent = time.time() - self._answered
        if silent < PATIENCE_SECONDS:
            return None
        since = time.strftime("%H:%M:%S", time.localtime(self._answered))
        return f"no broker of {self._settings.bootstrap_servers} has answered since {since} ({silent:.0f} s)"

    def _probe(self, settings: ClientSettings) -> None:
        with Cluster(settings) as cluster:
            while not self._over.is_set():
                try:
                    cluster.ping()
                    self._answered = time.time()
                except (OSError, KcliError):
                    pass  # the time of the last answer stays
                self._over.wait(PROBE_SECONDS)
