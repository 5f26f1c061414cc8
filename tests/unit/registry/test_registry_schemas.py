"""Parsing with references, and the cache of parsed schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from kcli.formats.schemas import ParsedSchema, SchemaLanguage, SchemaReference, SchemaType
from kcli.registry.decisions import schemas
from kcli.registry.decisions.configs import Settings
from kcli.registry.decisions.deletion import delete_subject
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.lookup import get_version
from rigs.small_schemas import Topic, definition, small_language

A, AB = '{"a":null}', '{"a":null,"b":1}'


def reference(name: str, subject: str, version: int = 1) -> dict[str, object]:
    return {"name": name, "subject": subject, "version": version}


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(RegistryError) as raised:
        call()
    assert raised.value.code == 42201
    return raised.value.message


@dataclass
class Recorder:
    """A language that remembers what it has parsed."""

    calls: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def of(self, schema_type: SchemaType) -> SchemaLanguage:
        return self

    def parse(self, text: str, resolved: Mapping[str, str], *, is_new: bool) -> ParsedSchema:
        self.calls.append((text, dict(resolved)))
        return small_language(SchemaType.AVRO).parse(text, resolved, is_new=is_new)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(schemas, "language_of", recorder.of)
    return recorder


def test_referenced_schemas_come_after_those_that_they_use(topic: Topic, recorder: Recorder) -> None:
    topic.register("c", '{"c":1}')
    topic.register("b", '{"$c":"c"}', references=[reference("c", "c")])
    topic.register("a", '{"$b":"b","$c":"c"}', references=[reference("b", "b", -1), reference("c", "c")])
    assert list(recorder.calls[-1][1].items()) == [("c", '{"c":1}'), ("b", '{"$c":"c"}')]
    stored = topic.state.version("a", 1)
    assert stored is not None
    assert stored.definition.references == (SchemaReference("b", "b", 1), SchemaReference("c", "c", 1))


def test_normalized_references_are_sorted_and_distinct(topic: Topic) -> None:
    topic.register("s", A)
    references = (SchemaReference("n", "s", -1), SchemaReference("m", "s", 1), SchemaReference("n", "s", 1))
    candidate = topic.rules.parser.candidate("t", definition("{}", *references), is_new=True, normalize=True)
    assert candidate.definition.references == (SchemaReference("n", "s", 1), SchemaReference("m", "s", 1))
    plain = topic.rules.parser.candidate("t", definition("{}", *references), is_new=True)
    assert [item.name for item in plain.definition.references] == ["n", "m", "n"]


def test_a_new_schema_does_not_refer_to_a_deleted_version(topic: Topic) -> None:
    topic.register("s", A)
    topic.register("t", '{"$a":"n"}', references=[reference("n", "s")])
    for subject in ("t", "s"):
        topic.carry_out(delete_subject(topic.rules, subject))
    assert refusal(lambda: topic.register("u", "{}", references=[reference("n", "s")])) == (
        'Invalid schema of type AVRO, details: No schema reference found for subject "s" and version 1'
    )
    assert "version -1" in refusal(lambda: topic.register("u", "{}", references=[reference("n", "s", -1)]))
    stored = topic.state.version("t", 1)
    assert stored is not None
    assert topic.rules.parser.stored(stored).in_format("resolved") == '{"a":null}'


def test_two_versions_of_a_reference_can_be_refused() -> None:
    def fill(topic: Topic) -> Topic:
        topic.register("s", A)
        topic.register("s", AB)
        topic.register("t", '{"$a":"n"}', references=[reference("n", "s")])
        return topic

    references = [reference("t", "t"), reference("n", "s", 2)]
    assert fill(Topic()).register("u", "{}", references=references).version == 1
    strict = fill(Topic(Settings(strict_references=True)))
    assert refusal(lambda: strict.register("u", "{}", references=references)) == (
        "Invalid schema of type AVRO, details: "
        'Conflicting reference versions for "n": version 1 and version 2'
    )


def test_the_number_of_references_is_bounded(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "REFERENCES_MAX", 2)
    topic.register("s", A)
    references = [reference(name, "s") for name in "abc"]
    assert topic.register("t", "{}", references=references[:2]).version == 1
    assert "refers to more than 2 schemas" in refusal(
        lambda: topic.register("u", "{}", references=references)
    )


def test_the_depth_of_references_is_bounded(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "REFERENCE_DEPTH_MAX", 2)
    topic.register("a", A)
    topic.register("b", '{"$a":"a"}', references=[reference("a", "a")])
    topic.register("c", '{"$b":"b"}', references=[reference("b", "b")])
    assert "a chain of more than 2 schemas" in refusal(
        lambda: topic.register("d", '{"$c":"c"}', references=[reference("c", "c")])
    )


def test_a_circle_of_references_ends(topic: Topic) -> None:
    circle = b'{"id":%d,"schema":"{}","references":[{"name":"%s","subject":"%s","version":1}]}'
    topic.write(
        (b'{"keytype":"SCHEMA","subject":"a","version":1}', circle % (1, b"b", b"b")),
        (b'{"keytype":"SCHEMA","subject":"b","version":1}', circle % (2, b"a", b"a")),
    )
    stored = topic.state.version("a", 1)
    assert stored is not None
    assert topic.rules.parser.stored(stored).canonical == "{}"


def test_a_parsed_schema_is_kept(topic: Topic, recorder: Recorder) -> None:
    topic.register("s", A)
    stored = topic.state.version("s", 1)
    assert stored is not None
    count = len(recorder.calls)
    first = topic.rules.parser.stored(stored)
    assert topic.rules.parser.stored(stored) is first
    assert len(recorder.calls) == count + 1


def test_the_cache_forgets_the_schemas_that_were_not_used(recorder: Recorder) -> None:
    parser = Topic(Settings(cached_schemas=2)).rules.parser
    for text in ('{"a":1}', '{"b":1}', '{"a":1}', '{"c":1}', '{"a":1}', '{"b":1}'):
        parser.candidate("s", definition(text), is_new=False)
    assert [text for text, _ in recorder.calls] == ['{"a":1}', '{"b":1}', '{"c":1}', '{"b":1}']


def test_the_cache_has_a_limit_of_characters(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "CACHED_CHARACTERS_MAX", 20)
    parser = Topic().rules.parser
    long = '{"' + "x" * 30 + '":1}'
    for text in ('{"a":1}', '{"b":1}', '{"a":1}', long, long, '{"a":1}'):
        parser.candidate("s", definition(text), is_new=False)
    assert [text for text, _ in recorder.calls] == ['{"a":1}', '{"b":1}', long, long, '{"a":1}']


def test_a_schema_that_is_too_complex_is_an_error_and_not_a_failure(topic: Topic) -> None:
    message = "Invalid schema of type AVRO, details: the schema is too complex"
    topic.register("s", '{"complex":1}')
    assert refusal(lambda: topic.register("s", '{"complex":2}')) == message
    assert refusal(lambda: get_version(topic.rules, "s", 1, format_name="resolved")) == message
    parser = topic.rules.parser
    schema = definition('{"complex":1}')
    assert refusal(lambda: parser.candidate("s", schema, is_new=True, normalize=True)) == message
