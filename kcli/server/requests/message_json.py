"""Writes a message of the protocol as JSON, in the form of Kafka's request log.

kcli uses the form of Kafka's generated code. Names are in camel case, and only the fields that exist in the version of
the message are written. Ids are written as text, and bytes as base64. The size of records is written in place of the
records. Tagged fields with their default are left out, and secrets are hidden.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.config.describe import broker_key
from kcli.config.topic import TOPIC
from kcli.model.ids import ZERO_ID
from kcli.model.uuids import uuid_to_text
from kcli.protocol.wire import schema
from kcli.protocol.wire.api import ApiSpec
from kcli.protocol.wire.schema import Field

Node = bool | int | float | str | list["Node"] | dict[str, "Node"] | None

STRUCTS_MAX = 2_000
"""The most structs that are written of one message. Without this limit, a large message would block the event loop,
because a struct takes about 5 µs."""
HIDDEN = "[hidden]"

_SECRETS = frozenset({"auth_bytes", "hmac", "salt", "salted_password", "request_data", "response_data"})
"""Fields that are never written: secrets, and requests in an envelope, which may have secrets."""
_RECORDS = frozenset({"records", "unaligned_records"})
_SECRET_CONFIGS = frozenset({"AlterableConfig"})
"""Structs with a config whose value may be a secret. Kafka hides the same values."""


@dataclass(slots=True)
class _Budget:
    structs: int = STRUCTS_MAX


def message_json(message: object, spec: ApiSpec, version: int, kind: str) -> Node:
    """Returns the JSON of a message. `kind` is "request" or "response". If a message is large, only its first structs
    are written, and a text with the number of the other structs.
    """
    return _struct(message, schema.message_class(spec, kind), version, _Budget())


def _struct(message: object, cls: type, version: int, budget: _Budget) -> dict[str, Node]:
    budget.structs -= 1
    written: dict[str, Node] = {}
    for field in schema.fields(cls, version):
        value = getattr(message, field.name)
        if field.tag is not None and value == field.default:
            continue
        name = _camel(field.name)
        if field.name in _RECORDS:
            written[f"{name}SizeInBytes"] = len(value or b"")
        elif _is_secret(message, cls, field):
            written[name] = HIDDEN
        else:
            written[name] = _value(value, field, version, budget)
    return written


def _value(value: object, field: Field, version: int, budget: _Budget) -> Node:
    if value is None:
        return uuid_to_text(ZERO_ID) if field.type is uuid.UUID and not field.is_array else None
    if field.is_array:
        assert isinstance(value, Sequence)
        return _array(value, field, version, budget)
    if field.is_struct:
        return _struct(value, field.type, version, budget)
    return _scalar(value)


def _array(values: Sequence[object], field: Field, version: int, budget: _Budget) -> list[Node]:
    written: list[Node] = []
    for value in values:
        if budget.structs <= 0:
            return [*written, f"{len(values) - len(written)} more"]
        if field.is_struct:
            written.append(_struct(value, field.type, version, budget))
        else:
            budget.structs -= 1
            written.append(_scalar(value))
    return written


def _scalar(value: object) -> Node:
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            return int(value)  # an error code is written as a number
        case uuid.UUID():
            return uuid_to_text(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case _:
            return str(value)


def _is_secret(message: object, cls: type, field: Field) -> bool:
    if field.name in _SECRETS:
        return True
    return (
        field.name == "value"
        and cls.__name__ in _SECRET_CONFIGS
        and not _is_public(str(getattr(message, "name", "")))
    )


def _is_public(config: str) -> bool:
    """Whether the value of a config is certainly not a secret."""
    key = broker_key(config) or TOPIC.get(config)
    return key is not None and not key.sensitive


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
