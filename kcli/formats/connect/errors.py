"""The exceptions of Kafka Connect. `java_class` is the name that traces, dead letters and REST answers show."""

from __future__ import annotations

from typing import ClassVar

from kcli.config.definition import ConfigError
from kcli.errors import KcliError


class ConnectException(KcliError):
    """The base class of errors in a connector, a task, a converter or a transformation."""

    java_class: ClassVar[str] = "org.apache.kafka.connect.errors.ConnectException"


class RetriableException(ConnectException):
    """An error of an operation that may succeed if it is tried again."""

    java_class = "org.apache.kafka.connect.errors.RetriableException"


class DataException(ConnectException):
    """A value does not fit its schema, or a schema does not fit an operation."""

    java_class = "org.apache.kafka.connect.errors.DataException"


class SchemaBuilderException(DataException):
    """A schema cannot be built."""

    java_class = "org.apache.kafka.connect.errors.SchemaBuilderException"


class NotFoundException(ConnectException):
    """A thing of this name does not exist."""

    java_class = "org.apache.kafka.connect.errors.NotFoundException"


class SerializationException(KcliError):
    """Bytes cannot be read, or a value cannot be written."""

    java_class: ClassVar[str] = "org.apache.kafka.common.errors.SerializationException"


class JavaException(KcliError):
    """An exception that a library raises in Java, such as Jackson. It is the cause of an exception of Connect."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class


def java_chain(error: BaseException) -> list[tuple[str, str]]:
    """The Java class and the message of an exception, then those of its causes."""
    chain = []
    cause: BaseException | None = error
    while cause is not None:
        chain.append((_java_class(cause), str(cause)))
        cause = cause.__cause__
    return chain


def _java_class(error: BaseException) -> str:
    if isinstance(error, ConfigError):
        return "org.apache.kafka.common.config.ConfigException"
    kind = type(error)
    name = getattr(error, "java_class", None)
    return name if isinstance(name, str) else f"{kind.__module__}.{kind.__qualname__}"
