"""Describes the classes of the library kio: the versions of a message, and the fields of each struct.

kio has a class for each version of each message. Our message classes are generated from them, and tests compare both.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from functools import cache

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import schema_name_map

from kcli.protocol.wire.api import ApiSpec
from kcli.protocol.wire.schema import messages

_DURATIONS = ("timedelta_i32", "timedelta_i64", "datetime_i64")
_KIO_NAMES = {"list_client_metrics_resources": "list_config_resources"}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a kio struct.

    `kio_name` is the name of the attribute in kio's class, and `our_name` is the name of the field in our class. The
    names differ for durations and timestamps, because kio's names leave out the unit. `struct` is the kio class of a
    nested struct. `default` may be `dataclasses.MISSING`. `tag` is the number of a tagged field (KIP-482).
    """

    kio_name: str
    our_name: str
    kafka_type: str | None
    struct: type | None
    is_array: bool
    nullable: bool
    default: object
    doc: str
    tag: int | None


def versions(spec: ApiSpec) -> list[int]:
    """The versions of an API that both kio and Kafka 4.1 support, in ascending order."""
    known = schema_name_map[_KIO_NAMES.get(spec.module, spec.module)]
    return [version for version in sorted(known) if spec.min_version <= version <= spec.max_version]


@cache
def payload_class(spec: ApiSpec, version: int, kind: str) -> type:
    """kio's class for one message at one version. Raises KeyError if kio has no such class."""
    load = load_request_schema if kind == "request" else load_response_schema
    cls = typing.cast(type, load(spec.key.value, version))
    _allow_absent_timestamps(cls)
    return cls


def _allow_absent_timestamps(cls: type) -> None:
    """Makes kio accept -1 (no timestamp) in every timestamp field. Without this change, kio accepts -1 only in fields
    whose default is -1. Brokers send -1 in other fields too, such as the start of a transaction that never began
    (DescribeTransactions)."""
    for field in dataclasses.fields(cls):
        if field.metadata.get("kafka_type") == "datetime_i64":
            field.type = field.type | None  # type: ignore[operator]
            cls.__annotations__[field.name] = field.type
    for each in fields(cls):
        if each.struct is not None:
            _allow_absent_timestamps(each.struct)


@cache
def fields(cls: type) -> tuple[Field, ...]:
    """The fields of one kio struct in the order of the schema, tagged fields included."""
    hints = typing.get_type_hints(cls)
    return tuple(_field(field, hints[field.name]) for field in dataclasses.fields(cls))


def _field(field: dataclasses.Field[object], hint: object) -> Field:
    kafka_type = field.metadata.get("kafka_type")
    parts = list(typing.get_args(hint)) if _is_union(hint) else [hint]
    nullable = type(None) in parts and kafka_type not in ("uuid", "datetime_i64")
    core = next(part for part in parts if part is not type(None))
    is_array = typing.get_origin(core) is tuple
    if is_array:
        nullable = type(None) in parts
        core = typing.get_args(core)[0]
    return Field(
        kio_name=field.name,
        our_name=f"{field.name}_ms" if kafka_type in _DURATIONS else field.name,
        kafka_type=kafka_type,
        struct=core if dataclasses.is_dataclass(core) and isinstance(core, type) else None,
        is_array=is_array,
        nullable=nullable,
        default=field.default,
        doc="",
        tag=field.metadata.get("tag"),
    )


def _is_union(hint: object) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def our_class(cls: type, spec: ApiSpec, kind: str) -> type:
    """The class in `kcli.protocol.messages` for a kio class of one API."""
    module = messages(spec)
    # If request and response have a struct of the same name with different fields, the generator puts a prefix before
    # the name.
    found: type = getattr(module, f"{kind.capitalize()}{cls.__name__}", None) or getattr(module, cls.__name__)
    return found
