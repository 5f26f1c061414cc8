"""The reasons of a compatibility check in words: which consumers break, and what would cure it.

The messages of Confluent's registry have the form `{errorType:"KIND", description:"TEXT", additionalInfo:"MORE"}`, in
which each language has its own quotation marks. The text names the reader's schema first, as "new" or "old". So the
message itself shows which consumers cannot read which records.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

from kcli.model.java_text import parse_int

_HEAD = re.compile(r"""\{errorType:["'](\w+)["'], description:["']""", re.ASCII)
_MORE = ", additionalInfo:"
_READER = re.compile(r"\b[Tt]he (new|old) (?:schema|has|and)\b")
_DETAILS = ("{oldSchema: ", "{validateFields: ")
_VERSION = re.compile(r"\{oldSchemaVersion: (\d{1,9})\}", re.ASCII)

DIFFERENT_TYPE = "Incompatible because of different schema type"


class Broken(enum.StrEnum):
    """The consumers that break."""

    NEW_CONSUMERS = "consumers with the new schema cannot read records of the old schema"
    """The level BACKWARD forbids this."""
    OLD_CONSUMERS = "consumers with the old schema cannot read records of the new schema"
    """The level FORWARD forbids this."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why two schemas are not compatible. `kind` is empty if the registry sends a text of another form."""

    kind: str
    text: str
    broken: Broken | None = None
    cure: str = ""


def reasons_of(messages: Iterable[str], usual: Broken | None = None) -> tuple[Reason, ...]:
    """Returns the reasons of messages, without the messages that only repeat the old schema and the level.

    `usual` are the consumers that break if a message does not show it.
    """
    return tuple(
        _reason(message, usual)
        for message in messages
        if not (message.startswith(_DETAILS) or _VERSION.fullmatch(message))
    )


def broken_by(level: str) -> Broken | None:
    """Returns the consumers that a level protects, or None if it protects both."""
    if level.upper().startswith("BACKWARD"):
        return Broken.NEW_CONSUMERS
    return Broken.OLD_CONSUMERS if level.upper().startswith("FORWARD") else None


def old_version_of(messages: Iterable[str]) -> int | None:
    """Returns the version with which the messages compare, if they name it."""
    for message in messages:
        match = _VERSION.fullmatch(message)
        if match is not None:
            return parse_int(match[1])
    return None


def _reason(message: str, usual: Broken | None) -> Reason:
    head = _HEAD.match(message)
    if head is None:
        cure = "Register the schema under another subject." if message == DIFFERENT_TYPE else ""
        return Reason("", message, cure=cure)
    described, _, more = message[head.end() :].removesuffix("}").partition(_MORE)
    kind, text, more = head[1], _unquoted(described), _unquoted(more[1:])
    broken = _broken(text) or usual
    # The additional information of most kinds only repeats a name of the text.
    shown = f"{text} ({more})" if more and kind in ("TYPE_MISMATCH", "MISSING_UNION_BRANCH") else text
    return Reason(kind, shown or kind, broken, _cure(kind, broken))


def _unquoted(text: str) -> str:
    return text[:-1] if text.endswith(('"', "'")) else text


def _broken(text: str) -> Broken | None:
    match = _READER.search(text)
    if match is None:
        return None
    return Broken.NEW_CONSUMERS if match[1] == "new" else Broken.OLD_CONSUMERS


_OPEN = (
    "The old object accepts any property, so its records may have this property with another type. Set the policy "
    "LENIENT for the subject, which permits optional properties (kcli schemas config SUBJECT --policy LENIENT). For a "
    'new subject, set "additionalProperties": false in the first version.'
)
_REQUIRED = "Make the property optional, or give it a default."
_PROPERTY_REMOVED = (
    "Keep the property, or set the policy LENIENT (kcli schemas config SUBJECT --policy LENIENT)."
)
_SAME_FIELD = "Keep the field as it was, and add the change as a new field with an unused number."
_BOUND = "Keep the old limit. Only a limit that permits more values is compatible in this direction."

_CURES = {
    "READER_FIELD_MISSING_DEFAULT_VALUE": "Give the new field a default.",
    "TYPE_MISMATCH": "Keep the type, and add a field with another name for the new type.",
    "NAME_MISMATCH": "Keep the name, or add the old name to the aliases of the new schema.",
    "FIXED_SIZE_MISMATCH": "Keep the size, and add a field with another name for the new size.",
    "MISSING_ENUM_SYMBOLS": "Keep the symbols, or give the enum of the new schema a default.",
    "MISSING_UNION_BRANCH": "Keep the type in the union.",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _REQUIRED,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": _REQUIRED,
    "REQUIRED_ATTRIBUTE_ADDED": _REQUIRED,
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _PROPERTY_REMOVED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _PROPERTY_REMOVED,
    "ADDITIONAL_PROPERTIES_REMOVED": "Keep the content model open. Only a new subject can begin with a closed one.",
    "TYPE_NARROWED": "Keep the type, or permit more types in place of fewer.",
    "TYPE_CHANGED": "Keep the type, and add a property with another name for the new type.",
    "ENUM_ARRAY_NARROWED": "Keep the values of the enum.",
    "PACKAGE_CHANGED": "Keep the package. Another package needs another subject.",
    "MESSAGE_REMOVED": "Keep the message, even if no field uses it.",
    "FIELD_KIND_CHANGED": _SAME_FIELD,
    "FIELD_SCALAR_KIND_CHANGED": _SAME_FIELD,
    "FIELD_NAMED_TYPE_CHANGED": _SAME_FIELD,
    "FIELD_NUMERIC_LABEL_CHANGED": _SAME_FIELD,
    "REQUIRED_FIELD_ADDED": "Make the field optional.",
    "REQUIRED_FIELD_REMOVED": "Keep the required field.",
    "ONEOF_FIELD_REMOVED": "Keep the field in the oneof.",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Move at most one field into a new oneof.",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "Keep the field outside of the oneof.",
}
"""What makes the new schema readable for new consumers."""

_FORWARD_CURES = {
    "READER_FIELD_MISSING_DEFAULT_VALUE": "Keep the field. It can be removed after a version that gives it a default.",
    "MISSING_ENUM_SYMBOLS": "Add a symbol only after a version that gives the enum a default.",
    "MISSING_UNION_BRANCH": "Let consumers use the new type first, with the level BACKWARD.",
    "NAME_MISMATCH": "Keep the name.",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": "Keep the property.",
    "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": "Keep the property.",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": "Leave the property out, because old consumers refuse it.",
    "REQUIRED_ATTRIBUTE_ADDED": "Keep the property required.",
    "REQUIRED_FIELD_ADDED": "Keep the required field.",
    "REQUIRED_FIELD_REMOVED": "Make the field optional.",
    "MESSAGE_REMOVED": "Leave the new message out.",
}
"""What makes records of the new schema readable for old consumers, where this differs."""


def _cure(kind: str, broken: Broken | None) -> str:
    if broken is Broken.OLD_CONSUMERS and kind in _FORWARD_CURES:
        return _FORWARD_CURES[kind]
    if kind in _CURES:
        return _CURES[kind]
    return _BOUND if kind.endswith(("_ADDED", "_INCREASED", "_DECREASED")) else ""
