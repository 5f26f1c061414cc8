"""The queue between the code that makes spans and the thread that exports them.

`add` never waits. If the queue is full, the span is dropped and counted. If the collector does not answer, one line is
logged. The next such line is logged only if the collector has answered in between.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from kcli.tracing.span import Span

_log = logging.getLogger("kcli.tracing")

_FLUSH_PAUSE_SECONDS = 0.005

CLOSE_MAX_SECONDS = 5.0
"""The longest time for which a process waits for a collector before it ends."""


class Exporter(Protocol):
    """Sends spans to a collector. Only the thread of the queue calls `export`."""

    def export(self, spans: Sequence[Span]) -> str | None:
        """Sends the spans. Returns None, or the reason if the spans could not be sent."""
        ...

    def shutdown(self) -> None:
        """Ends the present `export` early. Another thread calls this method."""
        ...


class ExportQueue:
    """Spans that wait for a thread that exports them."""

    def __init__(
        self, make_exporter: Callable[[], Exporter], *, queue_max: int, batch_max: int, delay_ms: int
    ) -> None:
        """Starts the thread. The thread calls `make_exporter`, because this call imports the SDK, which takes long."""
        self.dropped = 0
        self.exported = 0
        self._added = 0
        self._make_exporter = make_exporter
        self._exporter: Exporter | None = None
        self._spans: deque[Span] = deque()
        self._queue_max, self._batch_max = queue_max, max(1, min(batch_max, queue_max))
        self._delay_seconds = delay_ms / 1000
        self._wake = threading.Event()
        self._closing = False
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="export-traces", daemon=True)
        self._thread.start()

    def add(self, span: Span) -> None:
        """Passes a span to the thread of the queue, or drops the span if the queue is full."""
        self._added += 1
        if len(self._spans) >= self._queue_max:
            self.dropped += 1
            return
        self._spans.append(span)
        if len(self._spans) >= self._batch_max and not self._wake.is_set():
            self._wake.set()

    def has_room(self, spans: int) -> bool:
        """Returns whether this number of spans can be added. If not, they count as dropped."""
        if len(self._spans) + spans <= self._queue_max:
            return True
        self._added += spans
        self.dropped += spans
        return False

    def flush(self, max_seconds: float) -> None:
        """Waits until all spans are exported or dropped, but at most `max_seconds`. Does not wait if the last export
        has failed."""
        deadline = time.monotonic() + max_seconds
        while self.exported + self.dropped < self._added and not self._is_failing:
            if time.monotonic() >= deadline:
                return
            self._wake.set()
            time.sleep(_FLUSH_PAUSE_SECONDS)

    def close(self, max_seconds: float = CLOSE_MAX_SECONDS) -> None:
        """Exports the waiting spans for at most `max_seconds`, and ends the thread. Spans that are not exported in this
        time are dropped."""
        deadline = time.monotonic() + max_seconds
        self._closing = True
        self._wake.set()
        self._thread.join(max_seconds)
        if self._thread.is_alive() and self._exporter is not None:
            self._exporter.shutdown()
            self._thread.join(max(0.5, deadline - time.monotonic()))
        self.dropped += len(self._spans)
        self._spans.clear()

    def _run(self) -> None:
        try:
            self._exporter = self._make_exporter()
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}")
            return
        while True:
            self._wake.wait(self._delay_seconds)
            self._wake.clear()
            is_last = self._closing
            self._export_all(self._exporter)
            if is_last:
                return

    def _export_all(self, exporter: Exporter) -> None:
        while self._spans:
            batch = [self._spans.popleft() for _ in range(min(self._batch_max, len(self._spans)))]
            try:
                failure = exporter.export(batch)
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
            if failure is None:
                self.exported += len(batch)
                self._is_failing = False
            else:
                self.dropped += len(batch)
                self._failed(failure)

    def _failed(self, reason: str) -> None:
        if not self._is_failing:
            self._is_failing = True
            _log.warning(
                "Traces cannot be exported, and spans are dropped until the collector answers: %s", reason
            )
