"""Transformations of headers and topics, and the predicates."""

from __future__ import annotations

import pytest

from kcli import VERSION
from kcli.connectors.records import Header, SinkRecord
from kcli.connectors.transformation import Predicate
from kcli.connectors.transforms.shared import PACKAGE
from kcli.formats.connect.schema import (
    INT8_SCHEMA,
    INT32_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    struct_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Int8
from rigs.transforms import CLASSES, config_refusal, refusal, sink, transformation

OLD = Header("old", STRING_SCHEMA, "1")
SCHEMA = struct_schema({"id": INT32_SCHEMA, "name": OPTIONAL_STRING_SCHEMA}, name="S")
VALUE = Struct(SCHEMA, {"id": 7})


def test_headers_are_dropped_by_their_names() -> None:
    record = sink(headers=[OLD, Header("x", None, None), Header("old", None, 2)])
    assert transformation("DropHeaders", headers="old,none").apply(record) == sink(
        headers=[Header("x", None, None)]
    )


def test_a_literal_is_parsed_for_a_header() -> None:
    insert = transformation("InsertHeader", header="h", value_literal="12")
    assert insert.apply(sink(headers=[OLD])) == sink(headers=[OLD, Header("h", INT8_SCHEMA, Int8(12))])


def test_fields_of_a_struct_are_moved_to_headers() -> None:
    move = transformation("HeaderFrom$Value", fields="name,id", headers="n,i", operation="move")
    rest = struct_schema({}, name="S")
    headers = [OLD, Header("n", OPTIONAL_STRING_SCHEMA, None), Header("i", INT32_SCHEMA, 7)]
    assert move.apply(sink(VALUE, SCHEMA, headers=[OLD])) == sink(Struct(rest), rest, headers=headers)


def test_fields_of_a_struct_are_copied_to_headers() -> None:
    copy = transformation("HeaderFrom$Key", fields="id", headers="i", operation="copy")
    record = sink(key=VALUE, key_schema=SCHEMA)
    assert copy.apply(record) == sink(key=VALUE, key_schema=SCHEMA, headers=[Header("i", INT32_SCHEMA, 7)])


def test_fields_of_a_map_become_headers_without_a_schema() -> None:
    record = sink({"a": 1, "b": 2})
    headers = [Header("x", None, 1), Header("y", None, None)]
    moved = transformation("HeaderFrom$Value", fields="a,no", headers="x,y", operation="move")
    assert moved.apply(record) == sink({"b": 2}, headers=headers)
    copied = transformation("HeaderFrom$Value", fields="a,no", headers="x,y", operation="copy")
    assert copied.apply(record) == sink({"a": 1, "b": 2}, headers=headers)


def test_a_field_that_cannot_be_a_header_is_refused() -> None:
    config = {"headers": "h", "operation": "move"}
    ((java_class, _),) = refusal("HeaderFrom$Value", sink(VALUE, SCHEMA), fields="no", **config)
    assert java_class == "NullPointerException"
    without_id = sink(Struct(SCHEMA), SCHEMA)
    chain = [("DataException", "A null value requires an optional schema but was Schema{INT32}")]
    assert refusal("HeaderFrom$Value", without_id, fields="id", **config) == chain
    chain = [
        ("DataException", "Only Map objects supported in absence of schema for [header move], found: null")
    ]
    assert refusal("HeaderFrom$Value", sink(None), fields="id", **config) == chain


def test_each_field_has_a_header() -> None:
    message = "'fields' config must have the same number of elements as 'headers' config."
    assert config_refusal("HeaderFrom$Value", fields="a,b", headers="x", operation="copy") == message


@pytest.mark.parametrize(
    ("regex", "replacement", "topic", "routed"),
    [
        ("a(.)c", "$1-$0", "abc", "b-abc"),
        ("b", "x", "abc", "abc"),
        # Java replaces the first match, which is not the whole name here.
        ("(a|ab)(c|bcd)(d*)", "$1,$2,$3", "abcd", "a,bcd,"),
        ("a|ab", "x", "ab", "xb"),
        ("(?<first>a).*", "${first}1", "abc", "a1"),
        ("(a)(x)?b", "[$2]", "ab", "[]"),
        ("(a)b", "$11\\$\\\\", "ab", "a1$\\"),
        ("[a-z]++", "p", "abc", "p"),
        ("(?i)ABC", "p", "abc", "p"),
    ],
)
def test_the_first_match_of_a_topic_is_replaced(
    regex: str, replacement: str, topic: str, routed: str
) -> None:
    router = transformation("RegexRouter", regex=regex, replacement=replacement)
    assert router.apply(sink(topic=topic)) == sink(topic=routed)


@pytest.mark.parametrize(
    ("replacement", "java_class", "message"),
    [
        ("$2", "IndexOutOfBoundsException", "No group 2"),
        ("$", "IllegalArgumentException", "Illegal group reference: group index is missing"),
        ("$x", "IllegalArgumentException", "Illegal group reference"),
        ("\\", "IllegalArgumentException", "character to be escaped is missing"),
        ("${n", "IllegalArgumentException", "named capturing group is missing trailing '}'"),
        ("${}", "IllegalArgumentException", "named capturing group is missing trailing '}'"),
        ("${1a}", "IllegalArgumentException", "capturing group name {1a} starts with digit character"),
        ("${n}", "IllegalArgumentException", "No group with name {n}"),
    ],
)
def test_an_invalid_replacement_is_refused_at_the_first_match(
    replacement: str, java_class: str, message: str
) -> None:
    chain = [(java_class, message)]
    assert refusal("RegexRouter", sink(topic="a"), regex="(a)", replacement=replacement) == chain


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("(", "Unclosed group near index 1\n("),
        ("a)", "Unmatched closing ')' near index 0\na)\n^"),
        ("*", "Dangling meta character '*' near index 0\n*\n^"),
        ("[a", "Unclosed character class near index 1\n[a\n ^"),
        ("[", "Unclosed character class near index 0\n[\n^"),
        (")", "Unmatched closing ')'\n)"),
        ("a{x", "Illegal repetition near index 2\na{x\n  ^"),
        ("a{1,", "Unclosed counted closure near index 4\na{1,"),
        ("\\", "Unexpected internal error near index 1\n\\"),
        ("(?z)", "Unknown inline modifier near index 2\n(?z)\n  ^"),
        ("(?i", "Unknown inline modifier near index 3\n(?i"),
        ("(?<1>a)", "capturing group name does not start with a Latin letter near index 3\n(?<1>a)\n   ^"),
        ("(?<n", "named capturing group is missing trailing '>' near index 4\n(?<n"),
        (
            "(?<n>)(?<n>)",
            "Named capturing group <n> is already defined near index 10\n(?<n>)(?<n>)\n          ^",
        ),
        ("\\k<n>", "named capturing group <n> does not exist near index 4\n\\k<n>\n    ^"),
        ("[z-a]", "Illegal character range near index 3\n[z-a]\n   ^"),
        ("\\p{Foo}", "Unknown character property name {Foo} near index 6\n\\p{Foo}\n      ^"),
        ("\\g", "Illegal/unsupported escape sequence near index 1\n\\g\n ^"),
        ("\\xZ", "Illegal hexadecimal escape sequence near index 2\n\\xZ\n  ^"),
    ],
)
def test_an_invalid_expression_is_refused_with_the_text_of_java(regex: str, reason: str) -> None:
    message = f"Invalid value {regex} for configuration regex: Invalid regex: {reason}"
    assert config_refusal("RegexRouter", regex=regex, replacement="x") == message


def test_the_filter_drops_every_record() -> None:
    assert transformation("Filter").apply(sink("v")) is None


def predicate(name: str, /, **config: str) -> Predicate[SinkRecord]:
    plugin = CLASSES[f"{PACKAGE}predicates.{name}"]()
    assert isinstance(plugin, Predicate)
    plugin.configure(config)
    return plugin


def test_predicates_decide_about_header_topic_and_value() -> None:
    assert predicate("HasHeaderKey", name="old").test(sink(headers=[OLD]))
    assert not predicate("HasHeaderKey", name="o").test(sink(headers=[OLD]))
    assert predicate("RecordIsTombstone").test(sink(None, STRING_SCHEMA))
    assert not predicate("RecordIsTombstone").test(sink(""))
    assert predicate("TopicNameMatches", pattern="a|ab").test(sink(topic="ab"))
    assert not predicate("TopicNameMatches", pattern="a").test(sink(topic="ab"))


def test_every_key_has_a_documentation_and_every_class_a_version() -> None:
    for name, plugin in CLASSES.items():
        assert plugin.version == ("4.1.0" if name.startswith("org.apache.kafka.") else VERSION), name
        assert all(key.documentation for key in plugin.config_def.values()), name
    assert len(CLASSES) == 31
