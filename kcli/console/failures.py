"""Turns errors into responses: a status of HTTP, and {"error": NAME, "message": TEXT}."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from kcli.client.client import AUTHENTICATION_ERRORS
from kcli.client.config import ClientConfigError
from kcli.console.answers import json_response
from kcli.errors import ErrorCode, KafkaError, KcliError, TimeoutException
from kcli.http.server import HttpError, Response

LOGIN_NEEDED = "LOGIN_NEEDED"
READ_ONLY = "READ_ONLY"

UNREACHABLE = "a broker of the cluster cannot be reached"
_NO_BROKER = "waiting for a node assignment"
"""A part of the message with which Kafka's clients report that the required broker does not answer."""

_BAD_REQUEST = frozenset(
    {
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.POLICY_VIOLATION,
    }
)
_NOT_FOUND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)
_CONFLICT = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
    }
)
_TIMEOUT = frozenset({ErrorCode.REQUEST_TIMED_OUT})


class ConsoleError(HttpError):
    """An error of the console with a name for the page."""

    def __init__(self, status: HTTPStatus, name: str, message: str) -> None:
        super().__init__(status, message)
        self.name = name


@dataclass(frozen=True, slots=True)
class Failure:
    """An error for a page."""

    status: HTTPStatus
    error: str
    message: str

    def response(self) -> Response:
        return json_response({"error": self.error, "message": self.message}, self.status)


BROKEN = Failure(HTTPStatus.INTERNAL_SERVER_ERROR, "BROKEN", "internal error of the console: see its log")


def failure_of(error: Exception) -> Failure | None:
    """Returns the failure for an expected error, or None for a mistake in the program."""
    match error:
        case ConsoleError():
            return Failure(error.status, error.name, str(error))
        case HttpError():
            return Failure(error.status, error.status.name, str(error))
        case TimeoutException() if _NO_BROKER in error.message:
            return Failure(HTTPStatus.GATEWAY_TIMEOUT, "TIMEOUT", _unreachable(error))
        case KafkaError():
            return Failure(_status(error), _name(error), error.message or _name(error))
        case TimeoutError():
            return Failure(HTTPStatus.GATEWAY_TIMEOUT, "TIMEOUT", "the cluster did not answer in time")
        case ClientConfigError():
            return Failure(HTTPStatus.BAD_REQUEST, "INVALID_SETTING", str(error))
        case KcliError() | OSError():
            return Failure(HTTPStatus.BAD_GATEWAY, type(error).__name__, str(error) or type(error).__name__)
        case _:
            return None


def http_failure(error: HttpError) -> Response:
    """Makes the response to an error outside the handlers, such as an unknown URL."""
    failure = failure_of(error)
    assert failure is not None
    response = failure.response()
    if error.close:
        response.force_close()
    return response


def _unreachable(error: KafkaError) -> str:
    """Names the broker that did not answer, because the other brokers may answer."""
    return f"{UNREACHABLE}: {error.__cause__}" if error.__cause__ else UNREACHABLE


def _status(error: KafkaError) -> HTTPStatus:
    if isinstance(error, AUTHENTICATION_ERRORS):
        return HTTPStatus.UNAUTHORIZED
    if error.code.name.endswith("AUTHORIZATION_FAILED"):
        return HTTPStatus.FORBIDDEN
    for codes, status in (
        (_BAD_REQUEST, HTTPStatus.BAD_REQUEST),
        (_NOT_FOUND, HTTPStatus.NOT_FOUND),
        (_CONFLICT, HTTPStatus.CONFLICT),
        (_TIMEOUT, HTTPStatus.GATEWAY_TIMEOUT),
    ):
        if error.code in codes:
            return status
    return HTTPStatus.SERVICE_UNAVAILABLE if error.retriable else HTTPStatus.BAD_GATEWAY


def _name(error: KafkaError) -> str:
    """The name of the error code. Errors of the client itself have no code, so they have the name of their class."""
    if isinstance(error, TimeoutException):
        return "TIMEOUT"
    if isinstance(error, AUTHENTICATION_ERRORS) or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
        return type(error).__name__
    return error.code.name
