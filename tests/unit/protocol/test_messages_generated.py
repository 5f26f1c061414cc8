"""The checked-in messages are what the generator writes, and the API table agrees with kio."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.protocol.wire import schema
from kcli.protocol.wire.api import API, ApiKey, ApiSpec
from kcli.protocol.wire.schema import KINDS
from rigs import kio_schema
from rigs.generate_messages import MESSAGES, expected_files

_TYPES: dict[str, tuple[str | None, type]] = {
    "string": (None, str),
    "bytes": (None, bytes),
    "records": (None, bytes),
    "bool": ("?", bool),
    "float64": ("d", float),
    "error_code": ("h", ErrorCode),
    "uuid": ("16s", uuid.UUID),
    "int8": ("b", int),
    "int16": ("h", int),
    "uint16": ("H", int),
    "int32": ("i", int),
    "timedelta_i32": ("i", int),
    "int64": ("q", int),
    "timedelta_i64": ("q", int),
    "datetime_i64": ("q", int),
}
"""The struct format and the class of each type of kio."""


def test_messages_are_current() -> None:
    expected = expected_files()
    stale = [path.name for path, text in expected.items() if not path.exists() or path.read_text() != text]
    assert stale == [], "run make generate"
    assert {path.name for path in MESSAGES.glob("*.py")} == {path.name for path in expected}


def test_every_api_has_a_row() -> None:
    assert list(API) == list(ApiKey)


@pytest.mark.parametrize("spec", API.values(), ids=lambda spec: spec.name)
def test_table_agrees_with_the_schema(spec: ApiSpec) -> None:
    versions = kio_schema.versions(spec)
    assert versions == list(range(spec.min_version, spec.max_version + 1))
    for version in versions:
        for kind in KINDS:
            payload: Any = kio_schema.payload_class(spec, version, kind)
            assert payload.__flexible__ == spec.is_flexible(version)


@pytest.mark.parametrize("spec", API.values(), ids=lambda spec: spec.name)
def test_the_annotations_declare_the_fields_of_every_version(spec: ApiSpec) -> None:
    for version in spec.versions:
        for kind in KINDS:
            theirs = kio_schema.payload_class(spec, version, kind)
            compare(schema.message_class(spec, kind), theirs, spec, version, kind)


def compare(ours: type, theirs: type, spec: ApiSpec, version: int, kind: str) -> None:
    fields, expected = schema.fields(ours, version), kio_schema.fields(theirs)
    assert [field.name for field in fields] == [field.our_name for field in expected]
    for field, other in zip(fields, expected, strict=True):
        assert (field.is_array, field.nullable, field.tag) == (other.is_array, other.nullable, other.tag), (
            field
        )
        if other.struct is None:
            assert (field.form, field.type) == _TYPES[other.kafka_type or ""], field
        else:
            assert field.is_struct and field.type is kio_schema.our_class(other.struct, spec, kind)
            compare(field.type, other.struct, spec, version, kind)
