"""The result of a deciding function: the records to append, and the response to send when they are committed.

A decision about many partitions is made in steps, so that other requests are served between two steps. Each step uses
the newest state: the records of earlier steps, and of other decisions between the steps, have been replayed.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcli.errors import ErrorCode, KafkaError, PolicyViolationException
from kcli.model.pace import Pace
from kcli.protocol.records.metadata import MetadataRecord

R = TypeVar("R")

MAX_RECORDS_PER_BATCH = 10_000
"""The most records in a batch of the metadata log, as in Kafka. This limit also applies to a client's operation,
because an operation is one atomic batch. The start or stop of a broker may need more records, which are divided into
several batches."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """The records to append, and the response to send when they are committed. If `kraft_version` is set, the quorum
    must first rise to this level, and then the request is decided again (KIP-853)."""

    records: tuple[MetadataRecord, ...]
    response: R
    kraft_version: int | None = None


DecisionSteps = Generator[Sequence[MetadataRecord], None, Decision[R]]
"""A generator that yields the records of each step, and returns the decision of the last step. The caller appends and
replays the yielded records, lets other work run, and continues the generator."""

PARTITIONS_PER_STEP = 100
"""The number of partitions that one step of a decision changes, or of names that it checks. A step takes a few
milliseconds."""


STEP_COST_MAX = 1000
"""The cost of one step of the work that prepares a decision, in microseconds."""

NAME_COST = STEP_COST_MAX // PARTITIONS_PER_STEP
"""The cost to check a name, such as a configuration key, in microseconds."""


def in_steps(work: Callable[[Pace], Coroutine[Any, Any, R]]) -> Generator[Sequence[MetadataRecord], None, R]:
    """Does work that prepares a decision. The work gets a pace that ends a step of the decision when its cost is
    STEP_COST_MAX."""
    coroutine = work(_StepPace())
    try:
        while True:
            coroutine.send(None)
            yield ()
    except StopIteration as end:
        result: R = end.value
        return result


class _StepPace:
    """A pace that suspends the work at the end of each step."""

    def __init__(self) -> None:
        self._left = STEP_COST_MAX

    async def __call__(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            await _next_step()
            self._left = STEP_COST_MAX - cost


@types.coroutine
def _next_step() -> Generator[None, None, None]:
    yield


class StepCounter:
    """Counts the partitions or names on which one step of a decision has worked."""

    def __init__(self) -> None:
        self._worked = 0

    @property
    def is_full(self) -> bool:
        """Counts one more partition or name. Returns True if the present step must end before the work on this
        partition or name."""
        self._worked += 1
        if self._worked <= PARTITIONS_PER_STEP:
            return False
        self._worked = 1
        return True


def decide(records: list[MetadataRecord], response: R) -> Decision[R]:
    """Makes the decision on a client's operation from its records and response. Raises PolicyViolationException if
    there are too many records for one batch."""
    if len(records) > MAX_RECORDS_PER_BATCH:
        raise too_many_records()
    return Decision(tuple(records), response)


def too_many_records() -> PolicyViolationException:
    return PolicyViolationException("Unable to perform excessively large batch operation.")


@dataclass(frozen=True, slots=True)
class ApiError:
    """The error of one topic or resource of a request, or NONE.

    If the message is missing, the code's default message applies.
    """

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @classmethod
    def of(cls, error: KafkaError) -> ApiError:
        """Makes the error from an exception. If the exception has the default message of its code, the message of the
        error is None."""
        return cls(error.code, None if error.message == error.default_message else error.message)

    @classmethod
    def standard(cls, error: type[KafkaError]) -> ApiError:
        """Makes an error whose message is the default message of its code. Only a few of Kafka's responses contain this
        message."""
        return cls(error.code, error.default_message)


NO_ERROR = ApiError()
