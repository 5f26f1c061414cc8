"""The resources below /schemas: schemas by id and by guid, and lists of all schemas."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.formats.registry.documents import ContextId, RegisteredSchema, SchemaString
from kcli.http.rest.routing import Call, Reply, Route
from kcli.registry.decider import characters_of
from kcli.registry.decisions import lists, lookup
from kcli.registry.decisions.errors import schema_not_found
from kcli.registry.decisions.rules import Rules
from kcli.registry.rest.requests import flag, listed, page, path_number
from kcli.registry.rest.resources import Desk

TYPES = ("JSON", "PROTOBUF", "AVRO")


class SchemaResources:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._config = desk.registry.config

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", "/schemas", self._list),
            Route("GET", "/schemas/types", self._types),
            Route("GET", "/schemas/ids/{id:int}", self._by_id),
            Route("GET", "/schemas/ids/{id:int}/schema", self._text_by_id),
            Route("GET", "/schemas/ids/{id:int}/subjects", self._subjects_of_id),
            Route("GET", "/schemas/ids/{id:int}/versions", self._versions_of_id),
            Route("GET", "/schemas/guids/{guid}", self._by_guid),
            Route("GET", "/schemas/guids/{guid}/ids", self._ids_of_guid),
        ]

    async def _types(self, call: Call) -> Reply:
        return Reply(list(TYPES))

    async def _list(self, call: Call) -> Reply:
        def readable_schemas(rules: Rules) -> list[RegisteredSchema]:
            schemas = lists.schemas(
                rules,
                call.query.get("subjectPrefix", ""),
                deleted=flag(call, "deleted"),
                latest_only=flag(call, "latestOnly"),
                rule_type=call.query.get("ruleType", ""),
                with_aliases=flag(call, "aliases"),
            )
            readable = set(self._desk.access.readable(call, {schema.subject for schema in schemas}))
            return [schema for schema in schemas if schema.subject in readable]

        schemas = await self._desk.listed(readable_schemas)
        return await listed(page(call, schemas, self._config.schema_limits), RegisteredSchema.to_json)

    # By id.

    async def _by_id(self, call: Call) -> Reply:
        return Reply((await self._schema_of_id(call)).to_json())

    async def _text_by_id(self, call: Call) -> Reply:
        return Reply((await self._schema_of_id(call)).definition.text.encode())

    async def _schema_of_id(self, call: Call) -> SchemaString:
        schema_id, subject = path_number(call.parameters["id"]), self._subject(call)
        if lookup.find_id(self._desk.rules, schema_id, subject) is None:
            await self._desk.registry.refresh()
        self._check_id(call, schema_id, subject)
        format_name = call.query.get("format", "")
        plain = lookup.get_by_id(self._desk.rules, schema_id, subject)
        return await self._desk.formatted(
            format_name,
            lambda rules: lookup.get_by_id(
                rules,
                schema_id,
                subject,
                format_name=format_name,
                references=call.query.get("referenceFormat", ""),
                with_max_id=flag(call, "fetchMaxId"),
            ),
            characters_of(plain.definition),
        )

    async def _subjects_of_id(self, call: Call) -> Reply:
        schema_id, subject = path_number(call.parameters["id"]), self._subject(call)
        subjects = lists.subjects_of_id(self._desk.rules, schema_id, subject, deleted=flag(call, "deleted"))
        readable = self._desk.access.readable(call, subjects)
        return Reply(list(page(call, readable, self._config.subject_limits)))

    async def _versions_of_id(self, call: Call) -> Reply:
        schema_id, subject = path_number(call.parameters["id"]), self._subject(call)
        versions = lists.versions_of_id(self._desk.rules, schema_id, subject, deleted=flag(call, "deleted"))
        readable = set(self._desk.access.readable(call, {version.subject for version in versions}))
        shown = [version.to_json() for version in versions if version.subject in readable]
        return Reply(list(page(call, shown, self._config.version_limits)))

    def _subject(self, call: Call) -> str | None:
        subject = call.query.get("subject")
        return self._desk.aliased(subject) if subject else subject

    def _check_id(self, call: Call, schema_id: int, subject: str | None) -> None:
        """Hides a schema whose subjects the user may not read."""
        if not self._may_read(call, schema_id, subject):
            raise schema_not_found(schema_id)

    def _may_read(self, call: Call, schema_id: int, subject: str | None) -> bool:
        if not self._desk.access.is_limited:
            return True
        holders = lists.subjects_of_id(self._desk.rules, schema_id, subject, deleted=True)
        return bool(self._desk.access.readable(call, holders))

    # By guid.

    async def _by_guid(self, call: Call) -> Reply:
        guid, format_name = call.parameters["guid"], call.query.get("format", "")
        plain = lookup.get_by_guid(self._desk.rules, guid)
        if not self._readable_ids(call, guid):
            raise schema_not_found(guid)
        schema = await self._desk.formatted(
            format_name,
            lambda rules: lookup.get_by_guid(rules, guid, format_name=format_name),
            characters_of(plain.definition),
        )
        return Reply(schema.to_json())

    async def _ids_of_guid(self, call: Call) -> Reply:
        ids = self._readable_ids(call, call.parameters["guid"])
        return Reply([context_id.to_json() for context_id in ids])

    def _readable_ids(self, call: Call, guid: str) -> list[ContextId]:
        """The ids of a guid in the contexts in which the user may read the schema. A guid without such a context looks
        like one that does not exist."""
        ids = lists.ids_of_guid(self._desk.rules, guid)
        return [one for one in ids if self._may_read(call, one.id, f":{one.context}:")]
