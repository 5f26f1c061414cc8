"""Avro schemas: names, references, canonical and normal texts, equality, and hostile texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcli.formats.avro import json_text, parsing
from kcli.formats.avro.language import AvroSchema, parse
from kcli.formats.codec import FormatError
from kcli.formats.schemas import SchemaType, language_of


def schema(declared: Any, references: dict[str, str] | None = None, *, is_new: bool = False) -> AvroSchema:
    text = declared if isinstance(declared, str) else json.dumps(declared)
    return parse(text, references or {}, is_new=is_new)


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def test_the_language_of_avro_is_found_by_its_type() -> None:
    parsed = language_of(SchemaType.AVRO).parse('{"type": "string"}', {}, is_new=True)
    assert (parsed.type, parsed.canonical) == (SchemaType.AVRO, '"string"')


def test_comments_are_accepted_outside_of_texts() -> None:
    text = '/* a "b */ {"type": "string", // c\n "x": "/* no */ // no" }'
    assert schema(text).canonical == '{"type":"string","x":"/* no */ // no"}'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "Cannot parse <null> schema"),
        (" /* only a comment */ ", "Cannot parse <null> schema"),
        ("1.0", "Schema not yet supported: 1.0"),
        ('"string" "int"', 'dangling content after end of schema: "int"'),
        ("NaN", "the text is not JSON: NaN is not a value"),
        (r'{"type":"bytes","doc":"\ud800"}', "a text has half of a surrogate pair"),
        (r'{"\udc00type":"bytes"}', "a text has half of a surrogate pair"),
        ("[" + "9" * 1001 + "]", "the text is not JSON: a number has more than 1000 digits"),
        ('"str', "the text is not JSON: Unterminated string"),
        ('{"type": "record", "name": "R", "fields": {}}', "Record has no fields: "),
        ('{"type": "fixed", "name": "F", "size": 2147483648}', "Invalid or no size: "),
        ('{"type": "fixed", "name": "F", "size": true}', "Invalid or no size: "),
        ('{"type": "map"}', "Map has no values type: "),
        ('{"type": "record", "name": "R", "aliases": [1], "fields": []}', "alias not a string: 1"),
    ],
)
def test_texts_that_are_no_schema_are_refused(text: str, error: str) -> None:
    with pytest.raises(FormatError) as caught:
        schema(text)
    assert str(caught.value).startswith(error)


def test_references_stay_names_in_the_canonical_text() -> None:
    references = {
        "n.Inner": '{"type":"fixed","name":"Inner","namespace":"n","size":1}',
        "n.Outer": '{"type":"record","name":"n.Outer","fields":[{"name":"i","type":"Inner"}]}',
    }
    parsed = schema(record(field("o", "Outer"), field("i", "n.Inner"), name="n.R"), references)
    assert parsed.canonical == (
        '{"type":"record","name":"R","namespace":"n",'
        '"fields":[{"name":"o","type":"Outer"},{"name":"i","type":"Inner"}]}'
    )
    assert '"type":{"type":"fixed","name":"Inner","size":1}' in parsed.in_format("resolved")
    assert parsed.in_format("nosuch") == parsed.canonical
    assert schema(parsed.in_format("resolved")).is_equal(parsed)


def test_a_missing_reference_is_named() -> None:
    with pytest.raises(FormatError, match=r"Undefined schema: n\.Outer"):
        schema(record(field("o", "Outer"), name="n.R"))


def test_only_new_schemas_have_strict_names_and_defaults() -> None:
    wrong_default = record(field("a", "int", default="x"))
    unicode_name = record(name="Ré")
    wrong_space = record(name="a-b.R")
    for declared in (wrong_default, unicode_name, wrong_space):
        schema(declared)
        with pytest.raises(FormatError):
            schema(declared, is_new=True)


def test_a_default_may_have_the_type_of_any_branch() -> None:
    for default in (None, 5, "x"):
        schema(record(field("a", ["null", "int", "string"], default=default)), is_new=True)
    with pytest.raises(FormatError, match=r"Invalid default for field a: \{\} not a \[\"null\",\"int\"\]"):
        schema(record(field("a", ["null", "int"], default={})), is_new=True)


def test_a_default_of_a_record_may_leave_out_fields_with_defaults() -> None:
    inner = record(field("x", "int", default=1), field("y", "int"), name="S")
    schema(record(field("a", inner, default={"y": 2})), is_new=True)
    with pytest.raises(FormatError, match="Invalid default for field a"):
        schema(record(field("a", inner, default={"x": 2})), is_new=True)


def test_the_normal_form_does_not_depend_on_orders() -> None:
    one = schema(
        record(
            field(
                "a",
                {
                    "type": "bytes",
                    "z": {"b": 1, "a": 2},
                    "scale": 2,
                    "precision": 4,
                    "logicalType": "decimal",
                },
            ),
            field("b", "float", default=1, aliases=["z", "y"], q=1, p=2),
            name="n.R",
            aliases=["Z", "m.A"],
            doc="",
        )
    )
    other = schema(
        record(
            field(
                "a",
                {
                    "type": "bytes",
                    "logicalType": "decimal",
                    "precision": 4,
                    "scale": 2,
                    "z": {"a": 2, "b": 1},
                },
            ),
            field("b", "float", p=2, q=1, aliases=["y", "z"], default=1.0),
            name="R",
            namespace="n",
            aliases=["m.A", "n.Z"],
        )
    )
    assert one.canonical != other.canonical
    assert one.normalized().canonical == other.normalized().canonical
    assert one.normalized().canonical == (
        '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"bytes",'
        '"logicalType":"decimal","precision":4,"scale":2,"z":{"a":2,"b":1}}},{"name":"b","type":"float",'
        '"default":1.0,"aliases":["y","z"],"p":2,"q":1}],"aliases":["m.A","Z"]}'
    )


def test_a_normal_form_keeps_references_and_namespaces() -> None:
    references = {"F": '{"type":"fixed","name":"F","size":1}'}
    inner = record(field("s", ["null", "S"]), name="S", namespace="")
    normal = schema(record(field("f", "F"), field("i", inner), name="n.R"), references).normalized()
    assert '"type":"F"' in normal.canonical and '"name":"S","namespace":""' in normal.canonical
    assert normal.normalized().canonical == normal.canonical


def test_a_normal_form_has_no_default_that_java_cannot_convert() -> None:
    declared = record(
        field("a", "double", default=10**400), field("b", "int", default="x"), field("c", "string", default=1)
    )
    assert "default" not in schema(declared).normalized().canonical


def test_equal_schemas_are_equal_in_documentation_too() -> None:
    plain = record(field("a", "int"), field("r", ["null", "R"]))
    assert schema(plain).is_equal(schema(json.dumps(plain, indent=2)))
    different = (
        plain | {"doc": "d"},
        plain | {"aliases": ["A"]},
        plain | {"p": 1},
        record(field("a", "int", doc="d"), field("r", ["null", "R"])),
        record(field("a", "int", default=1), field("r", ["null", "R"])),
        record(field("a", "int", order="ignore"), field("r", ["null", "R"])),
        record(field("a", "long"), field("r", ["null", "R"])),
        record(field("a", "int")),
    )
    for other in different:
        assert not schema(plain).is_equal(schema(other))
    assert not schema(plain | {"p": 1}).is_equal(schema(plain | {"p": 1.0}))
    assert not schema(plain | {"p": 1}).is_equal(schema(plain | {"p": True}))
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    assert not schema(enum).is_equal(schema(enum | {"default": "A"}))


def test_a_type_may_be_declared_twice_if_both_are_equal() -> None:
    twice = record(
        field("a", {"type": "fixed", "name": "F", "size": 1}),
        field("b", {"type": "fixed", "name": "F", "size": 1}),
    )
    assert schema(twice).canonical.endswith('{"name":"b","type":"F"}]}')
    twice["fields"][1]["type"]["size"] = 2
    with pytest.raises(FormatError, match="Can't redefine: F"):
        schema(twice)


def _chain(length: int) -> list[Any]:
    """Records of which each has the one before, in a union, so that the brackets are not nested."""
    records = [record(name="T0")]
    records += [record(field("a", f"T{nth - 1}"), name=f"T{nth}") for nth in range(1, length)]
    return records[::-1]


HOSTILE = {
    "deep brackets": "[" * 200_000,
    "deep but closed": "[" * 500 + "]" * 500,
    "deep records": '{"type":"array","items":' * 400 + '"int"' + "}" * 400,
    "long text": " " * (json_text.TEXT_MAX_CHARS + 1),
    "many branches": json.dumps(
        [{"type": "fixed", "name": f"F{nth}", "size": 1} for nth in range(parsing.PARTS_MAX)]
    ),
    "many symbols": json.dumps(
        {"type": "enum", "name": "E", "symbols": [f"s{nth}" for nth in range(parsing.PARTS_MAX)]}
    ),
    "a long chain of records": json.dumps(_chain(1_000)),
    "open comments": "/*" * 1_000_000,
    "open texts": '"\\' * 1_000_000,
    "properties nested deeply": '{"type":"int","p":' + "[" * 450 + "]" * 450 + "}",
    "a default in itself": json.dumps(record(field("r", "R", default={}))),
}


def test_each_canonical_text_can_be_parsed_again() -> None:
    deep = schema(_chain(parsing.DEPTH_MAX - 2))
    assert parse(deep.canonical, {}, is_new=True).canonical == deep.canonical
    assert deep.normalized().normalized().canonical == deep.normalized().canonical
    # The property alone is not nested too deeply, but with the types around it.
    chain = _chain(parsing.DEPTH_MAX - 2)
    chain[-1]["p"] = json.loads("[" * 200 + "]" * 200)
    with pytest.raises(FormatError, match="nested more than 400 times"):
        schema(chain)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_end_in_one_error(name: str) -> None:
    with pytest.raises(FormatError):
        schema(HOSTILE[name], is_new=True)


def test_defaults_that_grow_exponentially_are_refused() -> None:
    fields: list[Any] = [field("a0", "int", default=1)]
    inner = record(*fields, name="T0")
    records = [
        record(*(field(f"f{side}", f"T{nth - 1}", default={}) for side in range(2)), name=f"T{nth}")
        for nth in range(1, 40)
    ]
    with pytest.raises(FormatError, match="too many values"):
        schema([inner, *records], is_new=True)
