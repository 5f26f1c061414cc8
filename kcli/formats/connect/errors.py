"""The exceptions of Kafka Connect. `java_class` is the name that traces, dead letters and REST answers show."""

from __future__ import annotations

from typing import ClassVar

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
