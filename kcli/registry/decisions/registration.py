"""Registrations: finds an equal schema, or gives a new schema its version and its id."""

from __future__ import annotations

from dataclasses import replace

from kcli.formats.registry.contexts import DEFAULT_CONTEXT, Subject, is_valid, normalized
from kcli.formats.registry.digests import digest_of, guid_of
from kcli.formats.registry.documents import (
    ConfigDocument,
    RegisterRequest,
    RegisterResponse,
    SchemaDefinition,
)
from kcli.model.java_text import INT_MAX
from kcli.registry.decisions.annotations import check_rule_set, has_version, inherited, with_version
from kcli.registry.decisions.compatibility import incompatibilities
from kcli.registry.decisions.decision import Decision
from kcli.registry.decisions.errors import (
    incompatible_schema,
    invalid_schema,
    invalid_subject,
    not_permitted,
    store_failed,
)
from kcli.registry.decisions.matching import (
    Match,
    candidate_of,
    equal_schemas,
    exact_match,
    first_match,
    match_in_subject,
    match_of_latest,
)
from kcli.registry.decisions.records import (
    ContextKey,
    Entry,
    Mode,
    SchemaKey,
    StoredSchema,
    context_value,
    schema_value,
)
from kcli.registry.decisions.rules import Rules
from kcli.registry.decisions.schemas import LATEST, Candidate

_TAGS_MARK = "confluent"
"""Every way to write tags into a schema contains this word: `confluent:tags`, `confluent.field_meta`."""


def registered(
    rules: Rules, subject: str, request: RegisterRequest, *, normalize: bool = False
) -> RegisterResponse | None:
    """Returns the answer if the subject already has the schema. Then no leader is needed. Raises RegistryError."""
    check_request(rules, subject, request)
    subject = normalized(subject)
    config = rules.config_of(subject)
    defaults = (
        config.default_metadata,
        config.override_metadata,
        config.default_rule_set,
        config.override_rule_set,
    )
    if request.propagate_schema_tags or any(default is not None for default in defaults):
        return None  # The leader changes the schema before it looks for an equal one.
    if request.version == LATEST:
        match = match_of_latest(rules, subject, request.definition, normalize=normalize)
    else:
        match = match_in_subject(rules, subject, request.definition, normalize=normalize)
    if match is None:
        return None
    requested_id = _requested_id(request)
    if _requested_version(request) in (0, LATEST):
        return _answer(match) if requested_id in (None, match.schema.id) else None
    if requested_id != match.schema.id:
        return None
    # A schema may have been imported with several versions.
    version = rules.state.version(subject, _requested_version(request))
    if (
        version is None
        or version.deleted
        or (version.id, version.digest) != (match.schema.id, match.schema.digest)
    ):
        return None
    return _answer(Match(version, match.is_exact))


def register(
    rules: Rules, subject: str, request: RegisterRequest, *, normalize: bool = False, force: bool = False
) -> Decision[RegisterResponse]:
    """Decides a registration on the leader. `force` registers an incompatible schema. Raises RegistryError."""
    check_request(rules, subject, request)
    subject = normalized(subject)
    mode, requested_id = rules.mode_of(subject), _requested_id(request)
    _check_mode(subject, mode, requested_id)
    config, live = rules.config_of(subject), rules.state.live_versions(subject)
    definition = request.definition
    if not mode.takes_ids:
        definition = _completed(rules, subject, request, live[-1] if live else None, config)
    if definition.is_blank:
        raise invalid_schema("Empty schema")
    is_new = requested_id is None and rules.validates_new_schemas(config)
    candidate = candidate_of(rules, subject, definition, is_new=is_new, normalize=normalize)
    schema_id = _id_of_equal_schema(rules, subject, candidate, requested_id)
    if _requested_version(request) == 0:
        match = _live_match(rules, subject, candidate, live, schema_id)
        if match is not None:
            return Decision(_answer(match))
    if not (mode.takes_ids or force):
        validates_fields = rules.validates_fields(config)
        reasons = incompatibilities(rules.parser, config, candidate, live, validates_fields=validates_fields)
        if reasons:
            raise incompatible_schema(subject, reasons)
    version = _version(rules, subject, request, mode)
    if schema_id is None:
        schema_id = _next_id(rules, subject)
    else:
        _check_overwrite(rules, subject, schema_id, candidate.definition)
    digest = digest_of(candidate.definition)
    schema = StoredSchema(subject, version, schema_id, candidate.definition, digest)
    answer = RegisterResponse(schema_id, version, guid_of(digest), candidate.definition)
    return Decision(
        answer, (*_context_entries(rules, subject), *_superseded(rules, schema), *_entries(rules, schema))
    )


def check_request(rules: Rules, subject: str, request: RegisterRequest) -> None:
    """Checks the parts of a registration that do not depend on the state. Raises RegistryError."""
    check_rule_set(request.definition.rule_set)
    if not is_valid(subject, allow_empty=rules.settings.allow_empty_subject):
        raise invalid_subject(subject)
    if request.schema_tags_to_add or request.schema_tags_to_remove:
        raise invalid_schema("This registry does not edit the tags of a schema")


def next_version(rules: Rules, subject: str) -> int:
    """Returns the number of the next version. Deleted versions keep their numbers."""
    return max((schema.version for schema in rules.state.versions(subject)), default=0) + 1


def _requested_id(request: RegisterRequest) -> int | None:
    return None if request.id is None or request.id < 0 else request.id


def _requested_version(request: RegisterRequest) -> int:
    """The version of the request. 0 means any, and -1 a new version if the newest version has another schema."""
    return request.version or 0


def _check_mode(subject: str, mode: Mode, requested_id: int | None) -> None:
    place = f"Subject {subject} in context {Subject.of(subject).prefix}"
    if mode.is_readonly:
        raise not_permitted(f"{place} is in read-only mode")
    if requested_id is not None and not mode.takes_ids:
        raise not_permitted(f"{place} is not in import mode")
    if requested_id is None and mode is not Mode.READWRITE:
        raise not_permitted(f"{place} is not in read-write mode")


def _completed(
    rules: Rules,
    subject: str,
    request: RegisterRequest,
    previous: StoredSchema | None,
    config: ConfigDocument,
) -> SchemaDefinition:
    """The definition of a request with what it inherits from the previous version and from the config."""
    definition, old = request.definition, None if previous is None else previous.definition
    if request.propagate_schema_tags and old is not None and _TAGS_MARK in old.text:
        raise invalid_schema("This registry does not copy the tags of the previous version into a schema")
    if old is not None and definition.is_blank:
        definition = replace(definition, text=old.text, type=old.type, references=old.references)
    metadata, rule_set = inherited(definition, old, config)
    if _requested_version(request) != 0 or has_version(metadata):
        metadata = with_version(metadata, next_version(rules, subject))
    return replace(definition, metadata=metadata, rule_set=rule_set)


def _id_of_equal_schema(
    rules: Rules, subject: str, candidate: Candidate, requested_id: int | None
) -> int | None:
    """The id that a subject of the context already uses for the schema, or else the requested id."""
    if requested_id is not None:
        return requested_id
    own = exact_match(rules, subject, candidate)
    if own is not None:
        return own.id
    equal = equal_schemas(rules, subject, candidate)
    # An import can give one schema several ids. The record that was written last decides.
    return max(equal, key=lambda schema: schema.offset).id if equal else None


def _live_match(
    rules: Rules, subject: str, candidate: Candidate, live: list[StoredSchema], schema_id: int | None
) -> Match | None:
    """The live version that has the schema of a request, and the id if the request or an equal schema has one."""
    exact = exact_match(rules, subject, candidate)
    if exact is not None and exact.id == schema_id:
        return Match(exact, is_exact=True)
    return first_match(rules, candidate, [schema for schema in live if schema_id in (None, schema.id)])


def _version(rules: Rules, subject: str, request: RegisterRequest, mode: Mode) -> int:
    requested, following = _requested_version(request), next_version(rules, subject)
    if requested <= 0:
        return following
    if requested != following and not mode.takes_ids:
        raise invalid_schema("Version is not one more than previous version")
    return requested


def _next_id(rules: Rules, subject: str) -> int:
    highest = rules.state.max_id(Subject.of(subject).context)
    if highest == INT_MAX:
        raise store_failed(
            "Error while registering the schema due to generating an ID that is already in use."
        )
    return highest + 1


def _check_overwrite(rules: Rules, subject: str, schema_id: int, definition: SchemaDefinition) -> None:
    """Refuses an id that another schema of the context has."""
    parsed = Subject.of(subject)
    holder = next(rules.state.holders(parsed.context, schema_id), None)
    if holder is not None and holder.definition != definition:
        place = f"id {schema_id} in context {parsed.prefix}"
        raise not_permitted(f"Overwrite new schema with {place} is not permitted.")


def _context_entries(rules: Rules, subject: str) -> tuple[Entry, ...]:
    context = Subject.of(subject).context
    if context == DEFAULT_CONTEXT or rules.state.has_context(context):
        return ()
    return rules.state.entries(ContextKey(context), context_value(context))


def _superseded(rules: Rules, schema: StoredSchema) -> tuple[Entry, ...]:
    """Deletes older versions that have the id of the schema and are soft-deleted, unless a schema refers to them."""
    return tuple(
        entry
        for old in rules.state.versions(schema.subject)
        if old.deleted and old.id == schema.id and old.version < schema.version
        if not any(rules.state.referrers(old.key))
        for entry in rules.state.entries(old.key, None)
    )


def _entries(rules: Rules, schema: StoredSchema) -> tuple[Entry, ...]:
    return rules.state.entries(SchemaKey(schema.subject, schema.version), schema_value(schema))


def _answer(match: Match) -> RegisterResponse:
    document = match.document()
    return RegisterResponse(
        id=document.id,
        version=document.version,
        guid=document.guid,
        definition=document.definition,
        timestamp_ms=document.timestamp_ms,
        deleted=document.deleted,
    )
