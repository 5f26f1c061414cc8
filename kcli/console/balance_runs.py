"""Runs of the page "Balance". A run continues after its page is closed or its session ends, because an unfinished run
leaves the brokers uneven. When the console stops, the run removes its throttle and ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path

from kcli.client.admin.admin import AdminClient
from kcli.client.reassign.assignment import ReassignError, assignment_json
from kcli.client.reassign.cluster_state import ClusterState
from kcli.client.reassign.execution import BatchRow, Execution
from kcli.console.failures import BROKEN, Failure, failure_of
from kcli.errors import KafkaError
from kcli.model.topic_partition import TopicPartition

_log = logging.getLogger("kcli.console")

LINES_MAX = 200
"""The most lines of a run that are kept. A batch has one or two lines."""

_STOPPED = Failure(HTTPStatus.CONFLICT, "STOPPED", "The run was stopped.")

STOP_SECONDS = 20.0
"""The longest wait for a stopped run to remove its throttle."""


class Run:
    """One run and its messages. This object is the `Reporter` of the code that executes the moves."""

    shows_progress = True

    def __init__(self, user: str, summary: str, undo: str, ended: Callable[[Failure | None], None]) -> None:
        self.user = user
        self.summary = summary
        self.undo = undo
        """The reassignment file that moves everything back."""
        self.undo_path: Path | None = None
        """The path of the undo file on the machine of the console. The file has the text of `undo`."""
        self.ended = ended
        """Called at the end of the run, with its failure or None."""
        self.began_ms = int(time.time() * 1000)
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self.current: str | None = None
        self.batch = 0
        self.batches = 0
        self.error: str | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self.task is None or self.task.done()

    def say(self, line: str) -> None:
        self.lines.append(line)

    def warn(self, line: str) -> None:
        self.lines.append(f"Warning: {line}")

    def batch_done(self, row: BatchRow, line: str) -> None:
        self.batch, self.batches = row.batch, row.batches
        self.lines.append(line)

    def progress(self, line: str | None) -> None:
        self.current = line

    def error_text(self, error: KafkaError) -> str:
        return error.message

    def shown(self) -> dict[str, object]:
        """The run as JSON."""
        return {
            "user": self.user,
            "summary": self.summary,
            "began_ms": self.began_ms,
            "lines": list(self.lines),
            "current": self.current,
            "batch": self.batch,
            "batches": self.batches,
            "is_over": self.is_over,
            "error": self.error,
            "undo": self.undo,
            "undo_path": None if self.undo_path is None else str(self.undo_path),
        }


class BalanceRuns:
    """The latest run of each cluster."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def of(self, cluster: str) -> Run | None:
        return self._runs.get(cluster)

    def start(
        self,
        cluster: str,
        run: Run,
        client: AdminClient,
        state: ClusterState,
        changes: Mapping[TopicPartition, tuple[int, ...]],
        *,
        leaving: frozenset[int],
        rate: int | None,
    ) -> None:
        """Starts a run with its own client. The run closes this client at its end. Raises ReassignError if a run is in
        progress."""
        self.check_idle(cluster)
        execution = Execution(client, run, state, leaving=leaving, rate=rate)
        self._runs[cluster] = run
        run.task = asyncio.create_task(_carry_out(run, client, execution, changes), name=f"balance {cluster}")

    def check_idle(self, cluster: str) -> None:
        """Raises ReassignError if a run is in progress."""
        present = self._runs.get(cluster)
        if present is not None and not present.is_over:
            raise ReassignError("A run is in progress. Stop it, or wait for its end.")

    async def stop(self, cluster: str) -> None:
        """Stops the run of a cluster. Moves that have started continue without a throttle."""
        run = self._runs.get(cluster)
        if run is not None and run.task is not None and not run.is_over:
            run.task.cancel()
            await asyncio.wait((run.task,), timeout=STOP_SECONDS)

    async def close(self) -> None:
        for cluster in list(self._runs):
            await self.stop(cluster)


async def _carry_out(
    run: Run, client: AdminClient, execution: Execution, changes: Mapping[TopicPartition, tuple[int, ...]]
) -> None:
    failure: Failure | None = None
    try:
        async with client:
            await execution.run(changes)
        run.say("Done.")
    except asyncio.CancelledError:
        failure = _STOPPED
        raise
    except ReassignError as error:
        failure = Failure(HTTPStatus.CONFLICT, "FAILED", str(error))
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            _log.error("a run failed", exc_info=error)
            failure = BROKEN
    finally:
        run.current = None
        run.error = None if failure is None else failure.message
        run.ended(failure)


def undo_file(state: ClusterState, changes: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    """Returns the reassignment file that moves the partitions back."""
    return assignment_json(replicas_before(state, changes))


def replicas_before(
    state: ClusterState, changes: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Returns the present replicas of the partitions that a plan changes."""
    before = state.assignment
    return {partition: before[partition] for partition in changes}
