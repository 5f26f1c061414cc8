"""Conversions of Kafka Connect 4.1.0 against the same conversions here: bytes, values, schemas and errors."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcli.connectors.builtin import CONVERTER, HEADER_CONVERTER
from kcli.formats.connect.converter import Converter, HeaderConverter, SchemaAndValue
from kcli.formats.connect.schema import Schema
from rigs.connect_notation import (
    Json,
    built_in,
    comparable,
    read_schema,
    read_value,
    written_error,
    written_schema,
    written_value,
)

GOLDEN = Path(os.environ.get("KCLI_GOLDEN3", "../shared/golden3")) / "connect" / "converters.jsonl"

pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="the recordings of Kafka Connect 4.1 are absent")

DIFFERENT: Mapping[str, str] = {}
"""The ids of cases whose result differs here, with the reason. A case that became equal must be removed."""

ZONE_OF_RECORDING = "UTC"
TOPIC, HEADER = "t", "h"
KINDS = built_in(CONVERTER)
HEADER_KINDS = built_in(HEADER_CONVERTER)


def test_each_conversion_has_the_result_of_kafka_connect() -> None:
    cases = [json.loads(line) for line in GOLDEN.read_bytes().splitlines()]
    assert len(cases) >= 100, "the recording has cases"
    with time_zone(ZONE_OF_RECORDING):
        different = {case["id"]: difference for case in cases if (difference := difference_of(case))}
    for zone in {zone for case in cases for zone in case.get("with_tz", ())}:
        with time_zone(zone):
            different |= {
                f"{case['id']} in {zone}": difference
                for case in cases
                if zone in case.get("with_tz", ()) and (difference := difference_in_zone(case, zone))
            }
    unknown = [f"{name}: {text}" for name, text in different.items() if name not in DIFFERENT]
    assert not unknown, f"{len(unknown)} of {len(cases)} cases differ:\n" + "\n".join(unknown)
    assert not DIFFERENT.keys() - different.keys(), "these cases are equal now"


def difference_of(case: Json) -> str | None:
    expected = {key: case[key] for key in ("result", "back", "error") if key in case}
    return difference(expected, converted(case))


def difference_in_zone(case: Json, zone: str) -> str | None:
    """The difference of a case in another time zone."""
    expected = dict(case["with_tz"][zone])
    back = {"back": expected.pop("back")} if "back" in expected else {}
    return difference({"result": expected} | back, converted(case))


def difference(expected: Json, made: Json) -> str | None:
    wanted, got = comparable(without_text(expected)), comparable(made)
    return None if wanted == got else f"expected {json.dumps(wanted)}, got {json.dumps(got)}"


def without_text(expected: Json) -> Json:
    """A result without its readable text, because it also has the bytes."""
    if "result" not in expected:
        return expected
    return {**expected, "result": {key: item for key, item in expected["result"].items() if key != "text"}}


def converted(case: Json) -> Json:
    phase = "build"
    try:
        schema = read_schema(case.get("schema"))
        value = read_value(schema, case.get("value"))
        phase = "configure"
        converter = Headers(case) if case["op"].startswith("header") else Values(case)
        phase = "convert"
        if not case["op"].endswith("to_bytes"):
            return {"result": written(converter.to_connect(decoded(case["bytes"])))}
        data = converter.from_connect(schema, value)
        return {"result": {"bytes": encoded(data)}, "back": written(converter.to_connect(data))}
    except Exception as error:
        return {"error": written_error(phase, error)}


class Values:
    """A converter of keys or values."""

    def __init__(self, case: Json) -> None:
        self._converter: Converter = KINDS[case["class"]]()
        self._converter.configure(case["configs"], is_key=case["is_key"])

    def from_connect(self, schema: Schema | None, value: object) -> bytes | None:
        return self._converter.from_connect(TOPIC, schema, value)

    def to_connect(self, data: bytes | None) -> SchemaAndValue:
        return self._converter.to_connect(TOPIC, data)


class Headers:
    """A converter of headers, with the methods of `Values`."""

    def __init__(self, case: Json) -> None:
        self._converter: HeaderConverter = HEADER_KINDS[case["class"]]()
        self._converter.configure(case["configs"])

    def from_connect(self, schema: Schema | None, value: object) -> bytes | None:
        return self._converter.from_connect_header(TOPIC, HEADER, schema, value)

    def to_connect(self, data: bytes | None) -> SchemaAndValue:
        return self._converter.to_connect_header(TOPIC, HEADER, data)


def written(result: SchemaAndValue) -> Json:
    return {"schema": written_schema(result.schema), "value": written_value(result.schema, result.value)}


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@contextmanager
def time_zone(name: str) -> Iterator[None]:
    """Runs a block in a time zone, because texts of dates in headers have the zone of the process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()
