"""Schemas and values of Avro against Apache Avro 1.12.1 for Java, whose results are in avro_java.jsonl.

Each line has the text of a schema, and the canonical text or the error of Java. Most lines also have a writer's schema,
with the incompatibilities that Java reports, and a value of the writer in JSON as Java reads and prints it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.formats.avro.codec import json_decoder
from kcli.formats.avro.language import AvroSchema, parse
from kcli.formats.avro.numbers import InvalidAvro
from kcli.formats.codec import FormatError
from kcli.formats.schemas import CompatibilityPolicy

OWN_ERRORS = {
    # Java reports its own internals for these texts, or accepts a schema that has no valid values.
    "{": "the text is not JSON",
    "nope": "the text is not JSON",
    '"nope"': "Undefined schema: nope",
    '{"type":"Later"}': "Undefined schema: Later",
    '{"type":"enum","name":"E","symbols":[1]}': "Null name",
    # Confluent's registry checks the names of old schemas, which Java's parser does not.
    '{"type":"record","name":"Ré","fields":[{"name":"b-c","type":"int"}]}': "Illegal character in: b-c",
}


def _lines() -> Iterator[dict[str, Any]]:
    text = Path(__file__).with_name("avro_java.jsonl").read_text()
    yield from map(json.loads, text.split("\n")[:-1])  # some schemas have other ends of lines


def _parsed(line: dict[str, Any]) -> AvroSchema:
    references = {str(nth): text for nth, text in enumerate(line.get("refs", ()))}
    return parse(line["text"], references, is_new=line.get("new", False))


def test_texts_of_schemas_are_those_of_java() -> None:
    count = 0
    for line in _lines():
        if "canonical" in line and line["text"] not in OWN_ERRORS:
            schema = _parsed(line)
            assert schema.canonical == line["canonical"]
            assert schema.in_format("RESOLVED") == line.get("resolved", line["canonical"])
            count += 1
    assert count > 130


def test_errors_of_schemas_are_those_of_java() -> None:
    for line in _lines():
        expected = OWN_ERRORS.get(line["text"], line.get("error"))
        if expected is not None:
            with pytest.raises(FormatError) as caught:
                _parsed(line)
            assert str(caught.value).startswith(expected)


def test_incompatibilities_are_those_of_java() -> None:
    count = 0
    for line in _lines():
        if "diff" in line:
            reasons = _parsed(line).incompatibilities(
                parse(line["writer"], {}, is_new=False), CompatibilityPolicy.STRICT
            )
            assert [[reason.kind, reason.path] for reason in reasons] == [diff[:2] for diff in line["diff"]]
            for reason, (_, _, message) in zip(reasons, line["diff"], strict=True):
                assert reason.text.endswith(f", additionalInfo:'{message}'}}")
            count += bool(reasons)
    assert count > 50


def test_values_are_read_and_printed_as_by_java() -> None:
    count = 0
    for line in _lines():
        if "hex" in line:
            decode = json_decoder(parse(line["writer"], {}, is_new=False), _parsed(line))
            value = bytes.fromhex(line["hex"])
            if "json" in line:
                text = decode(value)
                # Java's maps have no order.
                assert text == line["json"] or json.loads(text) == json.loads(line["json"])
                count += 1
            else:
                with pytest.raises(InvalidAvro):
                    decode(value)
    assert count > 60
