"""Lists the versions of a registry. Registries without Confluent's resource /schemas are asked subject by subject."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.contexts import DEFAULT_CONTEXT, Subject, context_of
from kcli.formats.registry.documents import RegisteredSchema
from kcli.formats.registry.errors import RegistryError, RegistryRefused

T = TypeVar("T")

ALL_CONTEXTS = ":*:"

REQUESTS_AT_ONCE = 16
"""The requests that a command sends at the same time. A registry has a few threads for requests."""

_LONG_CODE = 10_000
"""The error codes of a registry's own errors have five digits. An unknown resource has only the status of HTTP."""

_MISSING = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)


@dataclass(frozen=True, slots=True)
class Selection:
    """The subjects of a command: those of a context (None: of all contexts) whose names have a prefix."""

    prefix: str = ""
    context: str | None = None

    def takes(self, subject: str) -> bool:
        context = context_of(subject)
        if self.context is not None and context != self.context:
            return False
        return unqualified(subject).startswith(self.prefix)

    @property
    def subject_prefix(self) -> str:
        """The prefix in a request, which has the form of a qualified subject."""
        if self.context == DEFAULT_CONTEXT:
            return self.prefix
        return f":{self.context}:{self.prefix}" if self.context else f"{ALL_CONTEXTS}{self.prefix}"


@dataclass(frozen=True, slots=True)
class Held:
    """A version of a registry, and whether it was deleted softly."""

    schema: RegisteredSchema
    is_deleted: bool = False


def unqualified(subject: str) -> str:
    """The name of a subject without its context."""
    return Subject.of(subject).name


async def contexts_of(client: RegistryClient) -> tuple[str, ...]:
    """The contexts of a registry. A registry without contexts has only the default context."""
    try:
        return await client.contexts()
    except RegistryRefused as error:
        if is_missing(error):
            return (DEFAULT_CONTEXT,)
        raise


async def versions_of(client: RegistryClient, selection: Selection, *, deleted: bool = False) -> list[Held]:
    """Returns the versions of the selected subjects, sorted by subject and version. With `deleted`, also the versions
    that were deleted softly."""
    contexts = await contexts_of(client)
    if selection.context is not None and selection.context not in contexts:
        return []
    # Only registries with contexts understand a qualified prefix. The others may ignore the prefix.
    prefix = selection.subject_prefix if len(contexts) > 1 else selection.prefix
    live = await _listed(client, prefix, selection, deleted=False)
    schemas = await _listed(client, prefix, selection, deleted=True) if deleted else live
    # Not every registry marks the versions that were deleted, so two lists are compared.
    kept = {(schema.subject, schema.version) for schema in live}
    held = [Held(schema, (schema.subject, schema.version) not in kept) for schema in schemas]
    return sorted(held, key=lambda one: (one.schema.subject, one.schema.version))


async def _listed(
    client: RegistryClient, prefix: str, selection: Selection, *, deleted: bool
) -> list[RegisteredSchema]:
    try:
        schemas = [schema async for schema in client.all_schemas(prefix=prefix or None, deleted=deleted)]
    except RegistryRefused as error:
        if not is_missing(error):
            raise
        schemas = await _one_by_one(client, prefix, selection, deleted=deleted)
    return [schema for schema in schemas if selection.takes(schema.subject)]


async def _one_by_one(
    client: RegistryClient, prefix: str, selection: Selection, *, deleted: bool
) -> list[RegisteredSchema]:
    subjects = await client.subjects(prefix=prefix or None, deleted=deleted)
    chosen = [subject for subject in subjects if selection.takes(subject)]
    numbers = await together(client.versions(subject, deleted=deleted) for subject in chosen)
    return await together(
        client.version(subject, number, deleted=deleted)
        for subject, listed in zip(chosen, numbers, strict=True)
        for number in listed
    )


def latest_of(held: Iterable[Held]) -> list[Held]:
    """The latest version of each subject: the latest one that is not deleted, if the subject has one."""
    latest: dict[str, Held] = {}
    for one in held:
        other = latest.get(one.schema.subject)
        if other is None or other.is_deleted or not one.is_deleted:
            latest[one.schema.subject] = one
    return list(latest.values())


def by_subject(held: Sequence[Held]) -> dict[str, list[Held]]:
    subjects: dict[str, list[Held]] = {}
    for one in held:
        subjects.setdefault(one.schema.subject, []).append(one)
    return subjects


def is_missing(error: RegistryError) -> bool:
    """Whether the registry does not have the resource of the request at all."""
    return isinstance(error, RegistryRefused) and error.status in _MISSING and error.code < _LONG_CODE


async def together(requests: Iterable[Awaitable[T]]) -> list[T]:
    """Sends many requests, a few of them at the same time. Returns the answers in order."""
    turns = asyncio.Semaphore(REQUESTS_AT_ONCE)

    async def one(request: Awaitable[T]) -> T:
        async with turns:
            return await request

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(request)) for request in requests]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
