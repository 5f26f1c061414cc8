"""Errors that the REST API answers. The worker's own code raises them, and rest/ turns them into responses."""

from __future__ import annotations

from typing import ClassVar

from kcli.errors import KcliError

_JAVA = "org.apache.kafka.connect"


class RestError(KcliError):
    """An error with an HTTP status. `str()` is the `message` of the response."""

    status = 500
    java_class: ClassVar[str] = f"{_JAVA}.runtime.rest.errors.ConnectRestException"

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status


class BadRequest(RestError):
    status = 400
    java_class = f"{_JAVA}.runtime.rest.errors.BadRequestException"


class InvalidVariable(RestError):
    """A variable of a configuration has no value, for example because its file cannot be read."""

    java_class = "org.apache.kafka.common.config.ConfigException"


class NotFound(RestError):
    status = 404
    java_class = f"{_JAVA}.errors.NotFoundException"


class AlreadyExists(RestError):
    status = 409
    java_class = f"{_JAVA}.errors.AlreadyExistsException"


class Conflict(RestError):
    """A rebalance or a change of the configuration is in progress, so that the caller should try again."""

    status = 409


class NotLeader(KcliError):
    """The worker at `url` must answer this request: the leader of the group, or the owner of a task.

    `url` is None if no worker is known.
    """

    def __init__(self, url: str | None) -> None:
        super().__init__(f"the worker at {url} answers this request")
        self.url = url


class TooManyTasks(KcliError):
    """A connector has made more configurations of tasks than tasks.max, which is a defect of the connector."""
