"""The resources below /subjects and /compatibility: versions, registrations, look-ups, deletions and checks."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kcli.formats.registry.contexts import ALL_CONTEXTS, beside
from kcli.formats.registry.documents import RegisteredSchema, RegisterRequest, RegisterResponse
from kcli.http.rest.routing import Call, Reply, Route
from kcli.model.java_text import trim
from kcli.registry.config.access_rules import Operation
from kcli.registry.decider import characters_of
from kcli.registry.decisions import checks, deletion, lists, lookup
from kcli.registry.decisions.lists import Deleted
from kcli.registry.decisions.lookup import version_number
from kcli.registry.registry import DELETE_SUBJECT, DELETE_VERSION
from kcli.registry.rest.requests import document, flag, page
from kcli.registry.rest.resources import Desk
from kcli.runtime import log_text

_log = logging.getLogger("kcli.registry.rest")


class SubjectResources:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._registry = desk.registry
        self._config = desk.registry.config

    def routes(self) -> Sequence[Route]:
        one, versions = "/subjects/{subject}", "/subjects/{subject}/versions"
        version = f"{versions}/{{version}}"
        check = f"/compatibility{versions}"
        return [
            Route("GET", "/subjects", self._list),
            Route("POST", one, self._look_up),
            Route("DELETE", one, self._delete),
            Route("GET", f"{one}/metadata", self._with_metadata),
            Route("GET", versions, self._versions),
            Route("POST", versions, self._register),
            Route("GET", version, self._version),
            Route("DELETE", version, self._delete_version),
            Route("GET", f"{version}/schema", self._text),
            Route("GET", f"{version}/referencedby", self._referenced_by),
            Route("POST", check, self._check_all),
            Route("POST", f"{check}/{{version}}", self._check_one),
        ]

    # Reads.

    async def _list(self, call: Call) -> Reply:
        prefix = call.query.get("subjectPrefix", ALL_CONTEXTS)
        names = await self._desk.listed(
            lambda rules: self._desk.access.readable(call, lists.subjects(rules, prefix, _deleted(call)))
        )
        return Reply(list(page(call, names, self._config.subject_limits)))

    async def _versions(self, call: Call) -> Reply:
        subject = self._desk.subject(call, Operation.READ)
        versions = lists.versions(
            self._desk.rules, subject, _deleted(call), negative=flag(call, "deletedAsNegative")
        )
        return Reply(list(page(call, versions, self._config.version_limits)))

    async def _version(self, call: Call) -> Reply:
        return Reply((await self._schema(call)).to_json())

    async def _text(self, call: Call) -> Reply:
        return Reply((await self._schema(call)).definition.text.encode())

    async def _schema(self, call: Call) -> RegisteredSchema:
        subject = self._desk.subject(call, Operation.READ)
        version, deleted = version_number(call.parameters["version"]), flag(call, "deleted")
        format_name = call.query.get("format", "")
        plain = lookup.get_version(self._desk.rules, subject, version, deleted=deleted)
        self._desk.access.check(call, Operation.READ, plain.subject)
        return await self._desk.formatted(
            format_name,
            lambda rules: lookup.get_version(
                rules,
                subject,
                version,
                deleted=deleted,
                format_name=format_name,
                references=call.query.get("referenceFormat", ""),
            ),
            characters_of(plain.definition),
        )

    async def _referenced_by(self, call: Call) -> Reply:
        subject = self._desk.subject(call, Operation.READ)
        version = version_number(call.parameters["version"])
        ids = lists.referenced_by(self._desk.rules, subject, version, deleted=flag(call, "deleted"))
        return Reply(list(page(call, ids, self._config.schema_limits)))

    async def _with_metadata(self, call: Call) -> Reply:
        subject = self._desk.subject(call, Operation.READ)
        pairs = zip(call.queries.get("key", ()), call.queries.get("value", ()), strict=False)
        properties, format_name = dict(pairs), call.query.get("format", "")
        deleted = flag(call, "deleted")
        plain = lookup.latest_with_metadata(self._desk.rules, subject, properties, deleted=deleted)
        schema = await self._desk.formatted(
            format_name,
            lambda rules: lookup.latest_with_metadata(
                rules, subject, properties, deleted=deleted, format_name=format_name
            ),
            characters_of(plain.definition),
        )
        return Reply(schema.to_json())

    async def _look_up(self, call: Call) -> Reply:
        subject = self._desk.subject(call, Operation.READ)
        request = await self._request(call, subject)
        schema = await self._registry.decider.decide(
            lambda rules: lookup.look_up(
                rules,
                subject,
                request,
                normalize=flag(call, "normalize"),
                deleted=flag(call, "deleted"),
                format_name=call.query.get("format", ""),
            ),
            self._registry.decider.characters_of(subject, request),
        )
        self._desk.access.check(call, Operation.READ, schema.subject)
        return Reply(schema.to_json())

    async def _request(self, call: Call, subject: str) -> RegisterRequest:
        """The body of a request with a schema for a subject. Raises RegistryError if it refers to a subject that the
        user may not read, because a format or a message can show the referenced text."""
        request = await document(call, RegisterRequest.from_json)
        for reference in request.definition.references:
            self._desk.access.check(call, Operation.READ, beside(subject, reference.subject))
        return request

    async def _check_all(self, call: Call) -> Reply:
        return await self._check(call, None)

    async def _check_one(self, call: Call) -> Reply:
        return await self._check(call, version_number(call.parameters["version"]))

    async def _check(self, call: Call, version: int | None) -> Reply:
        subject = self._desk.subject(call, Operation.READ)
        request = await self._request(call, subject)
        answer = await self._registry.decider.decide(
            lambda rules: checks.check_compatibility(
                rules,
                subject,
                request,
                version,
                normalize=flag(call, "normalize"),
                verbose=flag(call, "verbose"),
            ),
            self._registry.decider.comparison_of(subject, request),
        )
        return Reply(answer.to_json())

    # Changes.

    async def _register(self, call: Call) -> Reply:
        subject = self._desk.subject(call, Operation.WRITE)
        request = await self._request(call, subject)
        _log.info(
            "Registering new schema: subject %s, version %s, id %s, type %s, schema size %d",
            log_text.name(subject),
            request.version,
            request.id,
            log_text.name(request.definition.type),
            len(request.definition.text),
        )
        reply = await self._registry.register(
            call,
            subject,
            request,
            RegisterResponse.to_json,
            normalize=flag(call, "normalize"),
            force=flag(call, "force"),
        )
        return await self._in_format(call, reply)

    async def _in_format(self, call: Call, reply: Reply) -> Reply:
        """The answer to a registration with its schema in another format."""
        format_name = call.query.get("format", "")
        if not trim(format_name) or not isinstance(reply.body, dict):
            return reply
        answer = RegisterResponse.from_json(reply.body)
        schema = await self._desk.formatted(
            format_name,
            lambda rules: lookup.get_by_id(
                rules, answer.id, call.parameters["subject"], format_name=format_name
            ),
            0 if answer.definition is None else characters_of(answer.definition),
        )
        return Reply({**reply.body, "schema": schema.definition.text})

    async def _delete(self, call: Call) -> Reply:
        subject, permanent = self._desk.subject(call, Operation.WRITE), flag(call, "permanent")
        _log.info("Deleting subject %s%s", log_text.name(subject), " permanently" if permanent else "")
        return await self._registry.change(
            call,
            DELETE_SUBJECT,
            lambda rules: deletion.delete_subject(rules, subject, permanent=permanent),
            list,
        )

    async def _delete_version(self, call: Call) -> Reply:
        subject, permanent = self._desk.subject(call, Operation.WRITE), flag(call, "permanent")
        version = version_number(call.parameters["version"])
        _log.info(
            "Deleting schema version %d from subject %s%s",
            version,
            log_text.name(subject),
            " permanently" if permanent else "",
        )
        return await self._registry.change(
            call,
            DELETE_VERSION,
            lambda rules: deletion.delete_version(rules, subject, version, permanent=permanent),
            int,
        )


def _deleted(call: Call) -> Deleted:
    if flag(call, "deletedOnly"):
        return Deleted.ONLY
    return Deleted.INCLUDED if flag(call, "deleted") else Deleted.EXCLUDED
