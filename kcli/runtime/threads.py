"""The threads of a node, for work that would block its event loop.

Each kind of work has threads of its own, so that one kind never waits for another. Above all, the flush of the metadata
log must not wait for the work of clients or for another disk. A kind that clients can cause has few threads, because
threads compete with the event loop for Python's lock. The table has all kinds:

| kind | threads | work |
| --- | --- | --- |
| `quorum` | 2 | flushes of the metadata log; the vote of this node |
| `metadata_files` | 1 | snapshots of the metadata; the start of the quorum |
| `flushes(directory)` | 2 for each log directory | flushes after a roll; new logs that become durable |
| `logs` | 2 | new logs of partitions; truncations of followers |
| `moves` | 1 | copies of logs to another directory |
| `housekeeping` | 2 | periodic flushes, checkpoints and deletions of files |
| `READS` | 6 | records and snapshots that are not in the page cache |
| `REGEXES` | 1 | regular expressions of consumer groups, in slices |
| `LOOKUPS` | 2 | names of hosts in quotas; certificates that a client wants to use |

Other modules with threads: logins (`LoginThreads`), key sets of token servers (`sasl_logins.py`), batches that are
decompressed (`Openings`), and the log cleaner (`LogCleaning`). The default threads of asyncio only serve the start and
the stop of a node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

QUORUM_THREADS = 2
"""One for the flush, and one for the vote, which must not wait for a flush."""
METADATA_FILES_THREADS = 1
FLUSH_THREADS = 2
"""The threads of each log directory, because a disk is faster with two flushes at a time."""
LOGS_THREADS = 2
MOVES_THREADS = 1
HOUSEKEEPING_THREADS = 2
"""There are two, so that a slow flush does not delay a checkpoint."""
READ_THREADS = 6
REGEX_THREADS = 1
LOOKUP_THREADS = 2


async def run_in(executor: Executor | None, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs the work in a thread of the executor, and returns its result. None stands for the default threads."""
    return await asyncio.get_running_loop().run_in_executor(executor, partial(work, *args, **kwargs))


class Pool:
    """The threads for one kind of work. They start with the first work."""

    def __init__(self, name: str, threads: int) -> None:
        self.executor: Executor = ThreadPoolExecutor(threads, name)

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs the work in a thread, and returns its result."""
        return await run_in(self.executor, work, *args, **kwargs)


READS = Pool("kcli-reads", READ_THREADS)
REGEXES = Pool("kcli-regexes", REGEX_THREADS)
LOOKUPS = Pool("kcli-lookups", LOOKUP_THREADS)


@dataclass(frozen=True, slots=True)
class QuorumThreads:
    """The threads of the quorum. None stands for the default threads of asyncio."""

    flushes: Executor | None = None
    files: Executor | None = None


DEFAULT_THREADS = QuorumThreads()


class NodeThreads:
    """The threads that belong to one node, because its stop waits for their work.

    If `executor` is given, for example by a simulation, it does all work.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self._shared_executor = executor
        self._made: list[Executor] = []
        self._flushes: dict[str, Executor] = {}
        self.quorum = QuorumThreads(
            self._make("kcli-quorum", QUORUM_THREADS),
            self._make("kcli-metadata-files", METADATA_FILES_THREADS),
        )
        self.logs = self._make("kcli-logs", LOGS_THREADS)
        self.moves = self._make("kcli-moves", MOVES_THREADS)
        self.housekeeping = self._make("kcli-background", HOUSEKEEPING_THREADS)

    def flushes(self, directory: str) -> Callable[[Callable[[], None]], object]:
        """The function that runs work in the threads of a log directory."""
        executor = self._flushes.get(directory)
        if executor is None:
            executor = self._make(f"kcli-flushes-{len(self._flushes)}", FLUSH_THREADS)
            self._flushes[directory] = executor
        return executor.submit

    def _make(self, name: str, threads: int) -> Executor:
        if self._shared_executor is not None:
            return self._shared_executor
        made = ThreadPoolExecutor(threads, name)
        self._made.append(made)
        return made

    def close(self, *, wait: bool) -> None:
        """Ends the threads. If `wait` is True, waits for their work."""
        for executor in self._made if self._shared_executor is None else [self._shared_executor]:
            executor.shutdown(wait=wait)
