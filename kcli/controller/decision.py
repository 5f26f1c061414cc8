"""What a controller method answers: the records to append and the response to send once they are committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from kcli.errors import ErrorCode, KafkaError, PolicyViolationException
from kcli.protocol.records.metadata import MetadataRecord

R = TypeVar("R")

# Kafka's bound on a batch of the metadata log, and so on a client's operation, which is one batch applied as a whole.
# What follows from the coming and going of a broker may be more: it is cut into several batches.
MAX_RECORDS_PER_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    records: tuple[MetadataRecord, ...]
    response: R


def decide(records: list[MetadataRecord], response: R) -> Decision[R]:
    """A client's operation. Raises PolicyViolationException when it is too large for one batch."""
    if len(records) > MAX_RECORDS_PER_BATCH:
        raise PolicyViolationException("Unable to perform excessively large batch operation.")
    return Decision(tuple(records), response)


@dataclass(frozen=True, slots=True)
class ApiError:
    """Why one topic or resource of a request was refused; NONE when it was not. A null message is the code's own."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @classmethod
    def of(cls, error: KafkaError) -> ApiError:
        """The message is left out where it would only repeat what every client says for the code."""
        return cls(error.code, None if error.message == error.default_message else error.message)


NO_ERROR = ApiError()
