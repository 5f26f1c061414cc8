"""The parts that all requests for records share: threads, schemas, and the conversion of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from kcli.console.calls import Call
from kcli.console.failures import ConsoleError
from kcli.console.messages.filters.errors import FilterSyntaxError
from kcli.console.messages.positions import UnknownPartition
from kcli.console.messages.registry import SchemaRegistry
from kcli.console.messages.sending import InvalidRecord, MayBeWritten
from kcli.console.messages.single import NoSuchRecord
from kcli.console.messages.work import TooManyReads, Workers
from kcli.errors import KcliError

_REFUSALS: dict[type[Exception], tuple[HTTPStatus, str]] = {
    FilterSyntaxError: (HTTPStatus.BAD_REQUEST, "INVALID_FILTER"),
    InvalidRecord: (HTTPStatus.BAD_REQUEST, "INVALID_RECORD"),
    UnknownPartition: (HTTPStatus.NOT_FOUND, "UNKNOWN_PARTITION"),
    NoSuchRecord: (HTTPStatus.NOT_FOUND, "NO_SUCH_RECORD"),
    TooManyReads: (HTTPStatus.TOO_MANY_REQUESTS, "TOO_MANY_READS"),
    MayBeWritten: (HTTPStatus.GATEWAY_TIMEOUT, "MAY_BE_WRITTEN"),
}


@contextmanager
def refusals() -> Iterator[None]:
    """Converts errors of the `with` block, such as an invalid filter, into HTTP errors for the page."""
    try:
        yield
    except KcliError as error:
        if (refusal := _REFUSALS.get(type(error))) is None:
            raise
        raise ConsoleError(refusal[0], refusal[1], str(error)) from error


def workers_of(call: Call) -> Workers:
    """The threads in which the console does slow work on records."""
    return call.shared.get("record workers", Workers, Workers.close)


def schemas_of(call: Call) -> SchemaRegistry | None:
    """The schema registry of the cluster, or None if the settings name no registry."""
    url = call.rules.settings.schema_registry
    if url is None:
        return None
    name = f"schemas of {call.cluster}"
    properties = call.rules.settings.properties
    return call.shared.get(name, lambda: SchemaRegistry(url, properties), SchemaRegistry.close)
