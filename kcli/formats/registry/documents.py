"""The JSON documents of a schema registry, as Confluent's registry 8.1 writes them.

Each document is a frozen value with `from_json`, which reads the value of a JSON parser and raises InvalidDocument, and
`to_json`, whose members have Confluent's order. Unknown members are ignored. Members without a value are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from kcli.formats.registry.members import InvalidDocument, JsonObject, Members, text_item, without_empty
from kcli.formats.registry.rule_sets import Metadata, RuleSet
from kcli.formats.schemas import SchemaReference, SchemaType
from kcli.model.java_text import trim
from kcli.protocol.records.schema import Json


def reference_from_json(value: object, path: str = "reference") -> SchemaReference:
    """Reads a reference. Registries leave out an empty name, and the subject without a name."""
    members = Members.of(value, path)
    return SchemaReference(
        members.text("name") or "", members.text("subject") or "", members.required_number("version")
    )


def reference_json(reference: SchemaReference) -> JsonObject:
    return without_empty({"name": reference.name, "subject": reference.subject, "version": reference.version})


@dataclass(frozen=True, slots=True)
class SchemaDefinition:
    """A schema without its place in a registry. Two schemas with equal definitions have one guid.

    `type` is a text, because a request may name a type that the registry does not have.
    """

    text: str
    type: str = SchemaType.AVRO.value
    references: tuple[SchemaReference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None

    @classmethod
    def from_members(cls, members: Members) -> Self:
        """Reads the members of a document that contains a definition. A missing type is AVRO."""
        return cls(
            text=members.text("schema") or "",
            type=members.text("schemaType") or SchemaType.AVRO.value,
            references=members.list_of("references", reference_from_json),
            metadata=members.object_of("metadata", Metadata.from_json),
            rule_set=members.object_of("ruleSet", RuleSet.from_json),
        )

    @property
    def is_blank(self) -> bool:
        """Whether the text has no characters except spaces, which means the text of the latest version."""
        return not trim(self.text)

    def members(self) -> JsonObject:
        """The members of a document, with empty ones."""
        return {
            "schemaType": self.type,
            "references": [reference_json(reference) for reference in self.references],
            "metadata": None if self.metadata is None else self.metadata.to_json(),
            "ruleSet": None if self.rule_set is None else self.rule_set.to_json(),
            "schema": self.text,
        }


@dataclass(frozen=True, slots=True)
class SchemaTags:
    """The tags of a record or of a field, which `entity_type` distinguishes: `sr_record` or `sr_field`."""

    entity_path: str
    entity_type: str
    tags: tuple[str, ...]

    @classmethod
    def from_json(cls, value: object, path: str = "schemaTags") -> Self:
        members = Members.of(value, path)
        entity = Members.of(members.values.get("schemaEntity"), f"{path}.schemaEntity")
        tags = members.list_of("tags", text_item)
        return cls(entity.required_text("entityPath"), entity.required_text("entityType"), tags)

    def to_json(self) -> JsonObject:
        entity: JsonObject = {"entityPath": self.entity_path, "entityType": self.entity_type}
        return without_empty({"schemaEntity": entity, "tags": list(self.tags)})


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A version of a subject (the document Schema). `timestamp_ms` is the time of the record in `_schemas`.

    `aliases` are other names of the subject. Only a list of schemas contains them, if the request asks for them.
    """

    subject: str
    version: int
    id: int
    definition: SchemaDefinition
    guid: str | None = None
    schema_tags: tuple[SchemaTags, ...] = ()
    timestamp_ms: int | None = None
    deleted: bool | None = None
    aliases: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: object, path: str = "schema") -> Self:
        members = Members.of(value, path)
        return cls(
            subject=members.required_text("subject"),
            version=members.required_number("version"),
            id=members.required_number("id"),
            definition=SchemaDefinition.from_members(members),
            guid=members.text("guid"),
            schema_tags=members.list_of("schemaTags", SchemaTags.from_json),
            timestamp_ms=members.long("ts"),
            deleted=members.boolean("deleted"),
            aliases=members.list_of("aliases", text_item),
        )

    def to_json(self) -> JsonObject:
        # Confluent's class receives ruleSet in another way than its other members, so ruleSet comes last.
        definition = self.definition.members()
        rule_set = definition.pop("ruleSet")
        return without_empty(
            {
                "subject": self.subject,
                "version": self.version,
                "id": self.id,
                "guid": self.guid,
                **definition,
                "schemaTags": [tags.to_json() for tags in self.schema_tags],
                "ts": self.timestamp_ms,
                "deleted": self.deleted,
                "aliases": list(self.aliases),
                "ruleSet": rule_set,
            }
        )


@dataclass(frozen=True, slots=True)
class SchemaString:
    """A schema that is looked up by its id or guid. Subject and version are a version that has this schema."""

    definition: SchemaDefinition
    subject: str | None = None
    version: int | None = None
    guid: str | None = None
    schema_tags: tuple[SchemaTags, ...] = ()
    max_id: int | None = None
    timestamp_ms: int | None = None
    deleted: bool | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "schema") -> Self:
        members = Members.of(value, path)
        return cls(
            definition=SchemaDefinition.from_members(members),
            subject=members.text("subject"),
            version=members.number("version"),
            guid=members.text("guid"),
            schema_tags=members.list_of("schemaTags", SchemaTags.from_json),
            max_id=members.number("maxId"),
            timestamp_ms=members.long("ts"),
            deleted=members.boolean("deleted"),
        )

    def to_json(self) -> JsonObject:
        definition = self.definition.members()
        return without_empty(
            {
                "subject": self.subject,
                "version": self.version,
                "guid": self.guid,
                "schemaType": definition.pop("schemaType"),
                "schema": definition.pop("schema"),
                **definition,
                "schemaTags": [tags.to_json() for tags in self.schema_tags],
                "maxId": self.max_id,
                "ts": self.timestamp_ms,
                "deleted": self.deleted,
            }
        )


@dataclass(frozen=True, slots=True)
class RegisterRequest:
    """The body of a registration, a look-up or a compatibility check."""

    definition: SchemaDefinition
    version: int | None = None
    id: int | None = None
    schema_tags_to_add: tuple[SchemaTags, ...] = ()
    schema_tags_to_remove: tuple[SchemaTags, ...] = ()
    propagate_schema_tags: bool | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "request") -> Self:
        members = Members.of(value, path)
        return cls(
            definition=SchemaDefinition.from_members(members),
            version=members.number("version"),
            id=members.number("id"),
            schema_tags_to_add=members.list_of("schemaTagsToAdd", SchemaTags.from_json),
            schema_tags_to_remove=members.list_of("schemaTagsToRemove", SchemaTags.from_json),
            propagate_schema_tags=members.boolean("propagateSchemaTags"),
        )

    def to_json(self) -> JsonObject:
        return without_empty(
            {
                "version": self.version,
                "id": self.id,
                **self.definition.members(),
                "schemaTagsToAdd": [tags.to_json() for tags in self.schema_tags_to_add],
                "schemaTagsToRemove": [tags.to_json() for tags in self.schema_tags_to_remove],
                "propagateSchemaTags": self.propagate_schema_tags,
            }
        )


@dataclass(frozen=True, slots=True)
class RegisterResponse:
    """The answer to a registration. A registry before 8.0 returns only the id."""

    id: int
    version: int | None = None
    guid: str | None = None
    definition: SchemaDefinition | None = None
    timestamp_ms: int | None = None
    deleted: bool | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "response") -> Self:
        members = Members.of(value, path)
        return cls(
            id=members.required_number("id"),
            version=members.number("version"),
            guid=members.text("guid"),
            definition=SchemaDefinition.from_members(members) if members.text("schema") else None,
            timestamp_ms=members.long("ts"),
            deleted=members.boolean("deleted"),
        )

    def to_json(self) -> JsonObject:
        return without_empty(
            {
                "id": self.id,
                "version": self.version,
                "guid": self.guid,
                **({} if self.definition is None else self.definition.members()),
                "ts": self.timestamp_ms,
                "deleted": self.deleted,
            }
        )


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """The configuration of a subject, of a context or of the registry. None means that a member is not set.

    Levels and policies are texts, because a request may contain any text.
    """

    alias: str | None = None
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    compatibility_level: str | None = None
    compatibility_policy: str | None = None
    compatibility_group: str | None = None
    default_metadata: Metadata | None = None
    override_metadata: Metadata | None = None
    default_rule_set: RuleSet | None = None
    override_rule_set: RuleSet | None = None

    @classmethod
    def from_json(
        cls, value: object, path: str = "config", *, level_name: str = "compatibilityLevel"
    ) -> Self:
        """Reads a config. In the body of an update, the level has the name `compatibility`."""
        members = Members.of(value, path)
        return cls(
            alias=members.text("alias"),
            alias_for_deks=members.text("aliasForDeks"),
            normalize=members.boolean("normalize"),
            validate_fields=members.boolean("validateFields"),
            validate_new_schemas=members.boolean("validateNewSchemas"),
            validate_rules=members.boolean("validateRules"),
            compatibility_level=members.text(level_name),
            compatibility_policy=members.text("compatibilityPolicy"),
            compatibility_group=members.text("compatibilityGroup"),
            default_metadata=members.object_of("defaultMetadata", Metadata.from_json),
            override_metadata=members.object_of("overrideMetadata", Metadata.from_json),
            default_rule_set=members.object_of("defaultRuleSet", RuleSet.from_json),
            override_rule_set=members.object_of("overrideRuleSet", RuleSet.from_json),
        )

    def to_json(self, *, level_name: str = "compatibilityLevel") -> JsonObject:
        documents = (
            self.default_metadata,
            self.override_metadata,
            self.default_rule_set,
            self.override_rule_set,
        )
        values: tuple[Json, ...] = (
            self.alias,
            self.alias_for_deks,
            self.normalize,
            self.validate_fields,
            self.validate_new_schemas,
            self.validate_rules,
            self.compatibility_level,
            self.compatibility_policy,
            self.compatibility_group,
            *(None if document is None else document.to_json() for document in documents),
        )
        names = [level_name if name == "compatibilityLevel" else name for name in CONFIG_MEMBERS.values()]
        return without_empty(dict(zip(names, values, strict=True)))


CONFIG_MEMBERS = {
    "alias": "alias",
    "alias_for_deks": "aliasForDeks",
    "normalize": "normalize",
    "validate_fields": "validateFields",
    "validate_new_schemas": "validateNewSchemas",
    "validate_rules": "validateRules",
    "compatibility_level": "compatibilityLevel",
    "compatibility_policy": "compatibilityPolicy",
    "compatibility_group": "compatibilityGroup",
    "default_metadata": "defaultMetadata",
    "override_metadata": "overrideMetadata",
    "default_rule_set": "defaultRuleSet",
    "override_rule_set": "overrideRuleSet",
}
"""The members of a config in JSON, by the fields of ConfigDocument."""

UPDATE_LEVEL = "compatibility"
"""The name of the level in the body and in the answer of an update of a config."""


@dataclass(frozen=True, slots=True)
class ConfigUpdate:
    """The body of an update of a config. It sets the fields of `config`, and removes the fields that are null in it."""

    config: ConfigDocument
    removed: frozenset[str] = field(default_factory=frozenset)
    """Names of fields of ConfigDocument."""

    @classmethod
    def from_json(cls, value: object, path: str = "config") -> Self:
        config = ConfigDocument.from_json(value, path, level_name=UPDATE_LEVEL)
        members = Members.of(value, path)
        names = {**CONFIG_MEMBERS, "compatibility_level": UPDATE_LEVEL}
        return cls(config, frozenset(name for name, member in names.items() if members.is_null(member)))

    def to_json(self) -> JsonObject:
        removed: Mapping[str, None] = {
            UPDATE_LEVEL if name == "compatibility_level" else CONFIG_MEMBERS[name]: None
            for name in sorted(self.removed)
        }
        return {**self.config.to_json(level_name=UPDATE_LEVEL), **removed}


@dataclass(frozen=True, slots=True)
class ModeDocument:
    """The mode of a subject, of a context or of the registry. It is a text, because a request may contain any text.

    In an update, the mode None removes the mode that was set.
    """

    mode: str | None

    @classmethod
    def from_json(cls, value: object, path: str = "mode") -> Self:
        members = Members.of(value, path)
        return cls(None if members.is_null("mode") else members.required_text("mode"))

    def to_json(self) -> JsonObject:
        return {"mode": self.mode}


@dataclass(frozen=True, slots=True)
class CompatibilityAnswer:
    """The answer to a compatibility check. It has messages if the request asks for them."""

    is_compatible: bool
    messages: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, value: object, path: str = "answer") -> Self:
        members = Members.of(value, path)
        is_compatible = members.boolean("is_compatible")
        if is_compatible is None:
            raise InvalidDocument(f"{path}.is_compatible: the member is missing")
        return cls(
            is_compatible, members.list_of("messages", text_item) if members.values.get("messages") else None
        )

    def to_json(self) -> JsonObject:
        messages: JsonObject = {} if self.messages is None else {"messages": list(self.messages)}
        return {"is_compatible": self.is_compatible, **messages}


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    subject: str
    version: int

    @classmethod
    def from_json(cls, value: object, path: str = "version") -> Self:
        members = Members.of(value, path)
        return cls(members.required_text("subject"), members.required_number("version"))

    def to_json(self) -> JsonObject:
        return {"subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class ContextId:
    """An id of a schema and its context, because each context has its own ids."""

    context: str
    id: int

    @classmethod
    def from_json(cls, value: object, path: str = "id") -> Self:
        members = Members.of(value, path)
        return cls(members.required_text("context"), members.required_number("id"))

    def to_json(self) -> JsonObject:
        return {"context": self.context, "id": self.id}


@dataclass(frozen=True, slots=True)
class ErrorDocument:
    """The body of an error. Most codes begin with the status of HTTP."""

    error_code: int
    message: str

    @classmethod
    def from_json(cls, value: object, path: str = "error") -> Self:
        members = Members.of(value, path)
        return cls(members.required_number("error_code"), members.text("message") or "")

    def to_json(self) -> JsonObject:
        return {"error_code": self.error_code, "message": self.message}
