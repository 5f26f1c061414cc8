"""The result of a deciding function: the records to append, and the response to send when they are committed.

A decision about many partitions is made in steps, so that other requests are served between two steps. Each step uses
the newest state: the records of earlier steps, and of other decisions between the steps, have been replayed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kcli.errors import ErrorCode, KafkaError, PolicyViolationException
from kcli.protocol.records.metadata import MetadataRecord

R = TypeVar("R")

MAX_RECORDS_PER_BATCH = 10_000
"""Kafka's limit of the records in a batch of the metadata log. This limit also applies to a client's operation, because
an operation is one atomic batch. The start or stop of a broker may need more records, which are divided into several
batches."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """`kraft_version`: the level to which the quorum must rise before the request is decided again (KIP-853)."""

    records: tuple[MetadataRecord, ...]
    response: R
    kraft_version: int | None = None


Steps = Generator[Sequence[MetadataRecord], None, Decision[R]]
"""Yields the records of each step, and returns the last decision. Append and replay the yielded records, let other work
run, and continue."""

PARTITIONS_PER_STEP = 100
"""The partitions that one step of a decision changes, or the names that it checks. This takes a few milliseconds."""


def in_steps(work: Generator[None, None, R]) -> Generator[Sequence[MetadataRecord], None, R]:
    """Does work that prepares a decision. One step of the decision has PARTITIONS_PER_STEP steps of this work."""
    try:
        while True:
            for _ in range(PARTITIONS_PER_STEP):
                next(work)
            yield ()
    except StopIteration as end:
        result: R = end.value
        return result


class StepCounter:
    """Counts the partitions or names on which one step of a decision has worked."""

    def __init__(self) -> None:
        self._worked = 0

    @property
    def is_full(self) -> bool:
        """Counts one more. Returns True if the present step has enough and must end before this one."""
        self._worked += 1
        if self._worked <= PARTITIONS_PER_STEP:
            return False
        self._worked = 1
        return True


def decide(records: list[MetadataRecord], response: R) -> Decision[R]:
    """Makes the decision on a client's operation. Raises PolicyViolationException if the records are too many for one
    batch."""
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
        """The code and message of an exception. The message is None if it is the default message of the code."""
        return cls(error.code, None if error.message == error.default_message else error.message)

    @classmethod
    def standard(cls, error: type[KafkaError]) -> ApiError:
        """The error with the default message of its code, for the few places where Kafka sends this message."""
        return cls(error.code, error.default_message)


NO_ERROR = ApiError()
