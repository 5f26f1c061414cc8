"""The records of `_schemas`: keys and values as compact JSON.

Other writers have other forms: Karapace writes `"subject":null` and another order of the members, and old registries
write neither `schemaType` nor the magic byte 1. So a key is compared as a value, and never by its bytes.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
from dataclasses import dataclass, replace

from kcli.formats.registry.digests import DIGEST_BYTES, digest_of, guid_of
from kcli.formats.registry.documents import ConfigDocument, RegisteredSchema, SchemaDefinition
from kcli.formats.registry.members import InvalidDocument, JsonObject, Members, without_empty
from kcli.model.java_json import parse_json
from kcli.model.java_utf8 import decode_utf8
from kcli.protocol.records.json_text import dumps

Entry = tuple[bytes, bytes | None]
"""The key and the value of a record. A value of None deletes the key."""

TENANT = "default"
_OLD_MAGIC, _SCHEMA_MAGIC = 0, 1


class KeyType(enum.StrEnum):
    SCHEMA = "SCHEMA"
    CONFIG = "CONFIG"
    MODE = "MODE"
    DELETE_SUBJECT = "DELETE_SUBJECT"
    CLEAR_SUBJECT = "CLEAR_SUBJECT"
    CONTEXT = "CONTEXT"
    NOOP = "NOOP"
    ASSOCIATION = "ASSOC"


class Mode(enum.StrEnum):
    """Which changes a subject, a context or the registry accepts."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"
    FORWARD = "FORWARD"

    @property
    def is_readonly(self) -> bool:
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)

    @property
    def takes_ids(self) -> bool:
        """Whether registrations bring their ids."""
        return self in (Mode.IMPORT, Mode.FORWARD)


class InvalidRecord(ValueError):
    """A record of `_schemas` that no registry has written. The registry skips it."""


@dataclass(frozen=True, slots=True, order=True)
class SchemaKey:
    """A version of a subject, with the prefix of its context."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class ScopeKey:
    """The key of a record of a subject or of a context. The subject None stands for the default context."""

    type: KeyType
    subject: str | None


@dataclass(frozen=True, slots=True)
class ContextKey:
    context: str


@dataclass(frozen=True, slots=True)
class IgnoredKey:
    """The key of a record without effect: a NOOP, or an association, which this registry does not have."""

    type: KeyType


RecordKey = SchemaKey | ScopeKey | ContextKey | IgnoredKey


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """The value of a version. `offset` and `timestamp_ms` are those of its record.

    `has_md5` means that the record contains the digest. Only registries that encrypt metadata write it.
    """

    subject: str
    version: int
    id: int
    definition: SchemaDefinition
    digest: bytes
    deleted: bool = False
    has_md5: bool = False
    offset: int = -1
    timestamp_ms: int = -1

    @property
    def key(self) -> SchemaKey:
        return SchemaKey(self.subject, self.version)

    @property
    def guid(self) -> str:
        return guid_of(self.digest)

    def soft_deleted(self) -> StoredSchema:
        return replace(self, deleted=True)

    def document(self, aliases: tuple[str, ...] = ()) -> RegisteredSchema:
        return RegisteredSchema(
            subject=self.subject,
            version=self.version,
            id=self.id,
            guid=self.guid,
            definition=self.definition,
            timestamp_ms=self.timestamp_ms,
            deleted=self.deleted,
            aliases=aliases,
        )


def key_bytes(key: RecordKey) -> bytes:
    """The key as Confluent's registry writes it."""
    match key:
        case SchemaKey(subject, version):
            members: JsonObject = {
                "keytype": "SCHEMA",
                "subject": subject,
                "version": version,
                "magic": _SCHEMA_MAGIC,
            }
        case ScopeKey(kind, subject):
            members = {"keytype": kind.value, "subject": subject, "magic": 0}
        case ContextKey(context):
            members = {"keytype": "CONTEXT", "tenant": TENANT, "context": context, "magic": 0}
        case IgnoredKey(kind):
            members = {"keytype": kind.value, "magic": 0}
    return _bytes(without_empty(members))


def parse_key(key: bytes) -> RecordKey:
    """Parses a key in any form. Raises InvalidRecord."""
    members = _members(key, "key")
    try:
        kind = KeyType(members.required_text("keytype"))
        match kind:
            case KeyType.SCHEMA:
                return _schema_key(members)
            case KeyType.NOOP | KeyType.ASSOCIATION:
                return IgnoredKey(kind)
            case KeyType.CONTEXT:
                return ContextKey(members.required_text("context"))
            case KeyType.DELETE_SUBJECT:
                return ScopeKey(kind, members.text("subject") or "")
            case _:
                return ScopeKey(kind, members.text("subject") or None)
    except (InvalidDocument, ValueError) as error:
        raise InvalidRecord(str(error)) from None


def schema_value(schema: StoredSchema) -> bytes:
    definition = schema.definition.members()
    return _bytes(
        without_empty(
            {
                "subject": schema.subject,
                "version": schema.version,
                "id": schema.id,
                "md5": base64.b64encode(schema.digest).decode() if schema.has_md5 else None,
                **definition,
                "deleted": schema.deleted,
            }
        )
    )


def parse_schema(key: SchemaKey, value: bytes, offset: int, timestamp_ms: int) -> StoredSchema:
    """Parses a version. Its subject and version are those of the key. Raises InvalidRecord."""
    members = _members(value, "schema")
    try:
        members.required_text("schema")
        definition = SchemaDefinition.from_members(members)
        md5 = _digest(members.text("md5"))
        schema_id = members.required_number("id")
        if schema_id < 0:
            raise InvalidRecord(f"a schema has the id {schema_id}: expected at least 0")
        return StoredSchema(
            subject=key.subject,
            version=key.version,
            id=schema_id,
            definition=definition,
            digest=digest_of(definition) if md5 is None else md5,
            deleted=members.boolean("deleted") or False,
            has_md5=md5 is not None,
            offset=offset,
            timestamp_ms=timestamp_ms,
        )
    except InvalidDocument as error:
        raise InvalidRecord(str(error)) from None


def config_value(subject: str | None, config: ConfigDocument) -> bytes:
    return _bytes({**without_empty({"subject": subject}), **config.to_json()})


def parse_config(value: bytes) -> ConfigDocument:
    """Parses a config. Raises InvalidRecord."""
    members = _members(value, "config")
    try:
        return ConfigDocument.from_json(members.values)
    except InvalidDocument as error:
        raise InvalidRecord(str(error)) from None


def mode_value(subject: str | None, mode: Mode) -> bytes:
    return _bytes(without_empty({"subject": subject, "mode": mode.value}))


def parse_mode(value: bytes) -> Mode:
    """Parses a mode. Raises InvalidRecord."""
    members = _members(value, "mode")
    try:
        return Mode(members.required_text("mode"))
    except (InvalidDocument, ValueError) as error:
        raise InvalidRecord(str(error)) from None


def delete_subject_value(subject: str, version: int) -> bytes:
    """The value that soft-deletes all versions up to `version`."""
    return _bytes(without_empty({"subject": subject, "version": version}))


def parse_delete_subject(value: bytes) -> int:
    """Parses the last version that is deleted. Raises InvalidRecord."""
    try:
        return _members(value, "deletion").required_number("version")
    except InvalidDocument as error:
        raise InvalidRecord(str(error)) from None


def clear_subject_value(subject: str | None) -> bytes:
    return _bytes(without_empty({"subject": subject}))


def context_value(context: str) -> bytes:
    return _bytes({"tenant": TENANT, "context": context})


def _schema_key(members: Members) -> SchemaKey:
    magic = members.number("magic") or _OLD_MAGIC
    if magic not in (_OLD_MAGIC, _SCHEMA_MAGIC):
        raise InvalidRecord(f"a key has the magic byte {magic}: expected 0 or 1")
    version = members.required_number("version")
    if version < 1:
        raise InvalidRecord(f"a key has the version {version}: expected at least 1")
    return SchemaKey(members.text("subject") or "", version)


def _members(data: bytes, name: str) -> Members:
    text = decode_utf8(data)
    try:
        value = parse_json(text)
        if "\\u" in text:
            # Half of a surrogate pair cannot be answered to a client, so such a record is invalid.
            json.dumps(value, ensure_ascii=False).encode()
        return Members.of(value, name)
    except (InvalidDocument, ValueError) as error:
        raise InvalidRecord(str(error)) from None


def _digest(md5: str | None) -> bytes | None:
    """The digest of a record. An invalid digest counts as missing, because it can be computed."""
    try:
        digest = base64.b64decode(md5 or "", validate=True)
    except (binascii.Error, ValueError):
        return None
    return digest if len(digest) == DIGEST_BYTES else None


def _bytes(members: JsonObject) -> bytes:
    return dumps(members).encode("utf-8", "replace")
