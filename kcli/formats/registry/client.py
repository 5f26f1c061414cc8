"""The client of a schema registry: each operation of Confluent's REST API as one coroutine.

The client keeps no connection and no event loop, so several threads may use it, each with its own loop. Code that is
not asynchronous runs an operation with `waited` (blocking.py). The client caches nothing: `schemas.py` does.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, Literal, TypeVar

from kcli.formats.registry.documents import (
    CompatibilityAnswer,
    ConfigDocument,
    ConfigUpdate,
    ContextId,
    ModeDocument,
    RegisteredSchema,
    RegisterRequest,
    RegisterResponse,
    SchemaDefinition,
    SchemaString,
    SubjectVersion,
)
from kcli.formats.registry.errors import NOT_FOUND, RegistryError, RegistryRefused
from kcli.formats.registry.members import InvalidDocument, Members, text_item
from kcli.formats.registry.settings import RegistrySettings
from kcli.formats.registry.transport import ANSWER_MAX_BYTES, Query, Transport

T = TypeVar("T")

LATEST: Final = "latest"
Version = int | Literal["latest"]

PAGE_SCHEMAS = 500
"""The schemas of one page of `all_schemas`. A registry sends 1,000 at most."""


class RegistryClient:
    """The operations of one registry. They raise RegistryError."""

    def __init__(self, settings: RegistrySettings, *, answer_max_bytes: int = ANSWER_MAX_BYTES) -> None:
        self._transport = Transport(settings, answer_max_bytes=answer_max_bytes)

    @property
    def settings(self) -> RegistrySettings:
        return self._transport.settings

    # Schemas by id

    async def schema_by_id(
        self,
        schema_id: int,
        *,
        subject: str | None = None,
        format: str | None = None,
        with_max_id: bool = False,
    ) -> SchemaString:
        """Returns a schema. `subject` selects the context of the id. `format` is for example `serialized`.

        `with_max_id` requests the highest id of the context, too.
        """
        query = {"subject": subject, "format": format, "fetchMaxId": with_max_id or None}
        return self._read(SchemaString.from_json, await self._get("schemas", "ids", schema_id, query=query))

    async def schema_by_guid(self, guid: uuid.UUID, *, format: str | None = None) -> SchemaString:
        answer = await self._get("schemas", "guids", str(guid), query={"format": format})
        return self._read(SchemaString.from_json, answer)

    async def ids_of_guid(self, guid: uuid.UUID) -> tuple[ContextId, ...]:
        return self._list(ContextId.from_json, await self._get("schemas", "guids", str(guid), "ids"))

    async def versions_of_id(self, schema_id: int, *, deleted: bool = False) -> tuple[SubjectVersion, ...]:
        answer = await self._get("schemas", "ids", schema_id, "versions", query={"deleted": deleted})
        return self._list(SubjectVersion.from_json, answer)

    async def schema_types(self) -> tuple[str, ...]:
        return self._list(text_item, await self._get("schemas", "types"))

    async def all_schemas(
        self, *, prefix: str | None = None, deleted: bool = False, latest_only: bool = False
    ) -> AsyncIterator[RegisteredSchema]:
        """Yields the versions of all subjects, page by page. `prefix` is the beginning of their subjects, and
        `:*:` in it stands for all contexts."""
        offset, first = 0, None
        while True:
            query: Query = {
                "subjectPrefix": prefix,
                "deleted": deleted,
                "latestOnly": latest_only,
                "offset": offset,
                "limit": PAGE_SCHEMAS,
            }
            page = self._list(RegisteredSchema.from_json, await self._get("schemas", query=query))
            # A registry may send fewer schemas than requested, or ignore the offset and send all of them each time.
            if not page or page[0] == first:
                return
            for schema in page:
                yield schema
            first = page[0]
            offset += len(page)

    # Subjects and versions

    async def subjects(
        self, *, prefix: str | None = None, deleted: bool = False, deleted_only: bool = False
    ) -> tuple[str, ...]:
        query = {"subjectPrefix": prefix, "deleted": deleted, "deletedOnly": deleted_only}
        return self._list(text_item, await self._get("subjects", query=query))

    async def versions(
        self, subject: str, *, deleted: bool = False, deleted_only: bool = False
    ) -> tuple[int, ...]:
        query = {"deleted": deleted, "deletedOnly": deleted_only}
        return self._list(_number, await self._get("subjects", subject, "versions", query=query))

    async def version(
        self, subject: str, version: Version = LATEST, *, deleted: bool = False, format: str | None = None
    ) -> RegisteredSchema:
        """Returns a version of a subject. With `deleted`, a version that was deleted softly is returned too."""
        query = {"deleted": deleted, "format": format}
        answer = await self._get("subjects", subject, "versions", version, query=query)
        return self._read(RegisteredSchema.from_json, answer)

    async def latest_with_metadata(self, subject: str, properties: Mapping[str, str]) -> RegisteredSchema:
        """Returns the latest version whose metadata has these properties."""
        query = {"key": tuple(properties), "value": tuple(properties.values())}
        return self._read(
            RegisteredSchema.from_json, await self._get("subjects", subject, "metadata", query=query)
        )

    async def referenced_by(
        self, subject: str, version: Version, *, deleted: bool = False
    ) -> tuple[int, ...]:
        """Returns the ids of the schemas that refer to a version. With `deleted`, also of those deleted softly."""
        path = ("subjects", subject, "versions", version, "referencedby")
        return self._list(_number, await self._get(*path, query={"deleted": deleted}))

    async def register(
        self, subject: str, request: RegisterRequest, *, normalize: bool = False
    ) -> RegisterResponse:
        """Registers a schema, or returns its id if the subject has the schema already."""
        answer = await self._transport.call(
            "POST", ("subjects", subject, "versions"), {"normalize": normalize}, request.to_json()
        )
        return self._read(RegisterResponse.from_json, answer)

    async def look_up(
        self, subject: str, definition: SchemaDefinition, *, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        """Returns the version of a subject that has this schema."""
        query = {"normalize": normalize, "deleted": deleted}
        body = RegisterRequest(definition).to_json()
        return self._read(
            RegisteredSchema.from_json, await self._transport.call("POST", ("subjects", subject), query, body)
        )

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> tuple[int, ...]:
        """Deletes all versions of a subject, and returns them."""
        answer = await self._transport.call("DELETE", ("subjects", subject), {"permanent": permanent})
        return self._list(_number, answer)

    async def delete_version(self, subject: str, version: Version, *, permanent: bool = False) -> int:
        path = ("subjects", subject, "versions", version)
        return self._read(_number, await self._transport.call("DELETE", path, {"permanent": permanent}))

    # Compatibility, configs and modes

    async def check(
        self,
        subject: str,
        definition: SchemaDefinition,
        version: Version | None = None,
        *,
        normalize: bool = False,
    ) -> CompatibilityAnswer:
        """Checks a schema against one version, or without `version` against those that the level names. The answer has
        the reasons."""
        path = ("compatibility", "subjects", subject, "versions", *(() if version is None else (version,)))
        query = {"verbose": True, "normalize": normalize}
        body = RegisterRequest(definition).to_json()
        return self._read(
            CompatibilityAnswer.from_json, await self._transport.call("POST", path, query, body)
        )

    async def config(self, subject: str | None = None, *, default_to_global: bool = False) -> ConfigDocument:
        """Returns the config of a subject, or of the registry. With `default_to_global`, a subject without a config of
        its own has the config that counts for it."""
        query = {"defaultToGlobal": default_to_global or None}
        return self._read(ConfigDocument.from_json, await self._get("config", *_of(subject), query=query))

    async def set_config(self, update: ConfigUpdate, subject: str | None = None) -> ConfigUpdate:
        answer = await self._transport.call("PUT", ("config", *_of(subject)), None, update.to_json())
        return self._read(ConfigUpdate.from_json, answer)

    async def delete_config(self, subject: str | None = None) -> ConfigDocument:
        """Deletes a config, and returns it."""
        return self._read(
            ConfigDocument.from_json, await self._transport.call("DELETE", ("config", *_of(subject)))
        )

    async def mode(self, subject: str | None = None, *, default_to_global: bool = False) -> ModeDocument:
        query = {"defaultToGlobal": default_to_global or None}
        return self._read(ModeDocument.from_json, await self._get("mode", *_of(subject), query=query))

    async def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> ModeDocument:
        body = ModeDocument(mode).to_json()
        answer = await self._transport.call("PUT", ("mode", *_of(subject)), {"force": force}, body)
        return self._read(ModeDocument.from_json, answer)

    async def delete_mode(self, subject: str) -> ModeDocument:
        """Deletes a mode, and returns it."""
        return self._read(ModeDocument.from_json, await self._transport.call("DELETE", ("mode", subject)))

    # Contexts and associations

    async def contexts(self) -> tuple[str, ...]:
        return self._list(text_item, await self._get("contexts"))

    async def delete_context(self, context: str) -> None:
        await self._transport.call("DELETE", ("contexts", context))

    async def associated_subjects(self, namespace: str, topic: str, kind: str) -> tuple[str, ...]:
        """Returns the subjects that are associated with the keys or the values (`kind`) of a topic. A registry without
        associations has none."""
        query = {"resourceType": "topic", "associationType": kind}
        try:
            answer = await self._get("associations", "resources", namespace, topic, query=query)
        except RegistryRefused as error:
            if error.status == NOT_FOUND:
                return ()
            raise
        return self._list(_subject_of_association, answer)

    async def _get(self, *path: str | int, query: Query | None = None) -> object:
        return await self._transport.call("GET", path, query)

    def _read(self, parse: Callable[[object, str], T], answer: object) -> T:
        """Parses an answer. Raises RegistryError if the answer has another form."""
        try:
            return parse(answer, "answer")
        except InvalidDocument as error:
            raise RegistryError(
                f"the answer of the schema registry {self.settings.shown} is invalid: {error}"
            ) from None

    def _list(self, parse: Callable[[object, str], T], answer: object) -> tuple[T, ...]:
        return self._read(lambda value, path: Members({path: value}, "").list_of(path, parse), answer)


def _of(subject: str | None) -> tuple[str, ...]:
    return () if subject is None else (subject,)


def _number(value: object, path: str) -> int:
    return Members({"number": value}, path).required_number("number")


def _subject_of_association(value: object, path: str) -> str:
    return Members.of(value, path).required_text("subject")
