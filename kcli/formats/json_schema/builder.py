"""Builds the nodes of a schema. Keywords with values of a wrong type are errors, as in Confluent's registry.

Drafts 4 to 7 are read as Everit's library does, and the drafts of 2019 and 2020 as Skema's. The two libraries list the
parts of a combination in different orders, which the paths of messages show.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kcli.formats.codec import FormatError
from kcli.formats.json_schema import keywords as read
from kcli.formats.json_schema.documents import Document, Documents, Place, inner_path
from kcli.formats.json_schema.drafts import Draft
from kcli.formats.json_schema.nodes import (
    Annotations,
    ArrayRules,
    Combined,
    ConstValue,
    ContentModel,
    Criterion,
    EnumValues,
    Node,
    Not,
    NumberRules,
    ObjectRules,
    Plain,
    Reference,
    Rules,
    StringRules,
)
from kcli.formats.json_schema.patterns import check_pattern
from kcli.formats.json_schema.text import Json, write_json
from kcli.model.java_order import hash_order

SUBSCHEMAS_MAX = 50_000
"""The most schemas within a schema and its references. The schema of HL7 FHIR has about 20,000."""

_NUMBER_KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRING_KEYWORDS = ("minLength", "maxLength", "pattern", "format")
_OBJECT_KEYWORDS = (
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "additionalProperties",
)
_ARRAY_KEYWORDS = ("items", "minItems", "maxItems", "uniqueItems")
_MAPS = frozenset({"properties", "patternProperties"})
_LAST = _MAPS | {"unevaluatedItems", "unevaluatedProperties"}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Everit's library keeps the keywords of combinations in a hash set, which has this order.
_COMBINATIONS = ("allOf", "oneOf", "anyOf")

_Part = tuple[Rules, tuple[str, ...]]
"""A part of a schema: rules, and the keywords from which they were read."""


@dataclass(slots=True)
class Builder:
    """Builds nodes. The node of a schema is built once, although several references may name the schema."""

    documents: Documents
    _nodes: dict[int, Node] = field(default_factory=dict)
    _pending: deque[tuple[Reference, str, Json, Document]] = field(default_factory=deque)
    _count: int = 0

    def root(self) -> Node:
        """Returns the node of the main document, with all nodes that it refers to. Raises FormatError."""
        main = self.documents.main
        root = self.node(Place(main.root, main, "#"))
        targets = []
        while self._pending:
            reference, name, schema, document = self._pending.popleft()
            reference.target = self.node(self.documents.target(name, schema, document))
            targets.append(reference.target)
        for target in targets:
            assert target.referred, "the end of the chain exists"
        return root

    def node(self, place: Place) -> Node:
        """Returns the node of a schema. The targets of its references follow later."""
        self._count += 1
        if self._count > SUBSCHEMAS_MAX:
            raise FormatError(f"Invalid JSON: more than {SUBSCHEMAS_MAX} schemas")
        schema = place.schema
        if isinstance(schema, bool):
            return Node(Plain.TRUE if schema else Plain.FALSE, Annotations(), schema)
        if not isinstance(schema, dict):
            raise read.wrong_type(place.path, "a boolean or an object", schema)
        known = self._nodes.get(id(schema))
        if known is None:
            known = _SchemaReader(self, schema, place.document, place.path).node()
            self._nodes[id(schema)] = known
        return known

    def reference(self, name: str, schema: Json, document: Document) -> Reference:
        reference = Reference()
        self._pending.append((reference, name, schema, document))
        return reference


@dataclass(frozen=True, slots=True)
class _SchemaReader:
    """Reads one schema that is an object."""

    builder: Builder
    schema: dict[str, Json]
    document: Document
    path: str

    @property
    def draft(self) -> Draft:
        return self.document.draft

    def node(self) -> Node:
        parts = self._parts()
        if not parts:
            return Node(Plain.EMPTY, self._annotations(), self.schema)
        if len(parts) == 1:
            return Node(parts[0][0], self._annotations(), self.schema)
        members = tuple(Node(rules, Annotations(), self._selected(names)) for rules, names in parts)
        return Node(Combined(Criterion.ALL, members, is_split=True), self._annotations(), self.schema)

    def _annotations(self) -> Annotations:
        default = self.schema.get("default")
        connect_type = self.schema.get("connect.type")
        return Annotations(
            # Skema's library does not read the id.
            id=None if self.draft.is_modern else read.text(self.schema, self.draft.id_keyword, self.path),
            title=read.text(self.schema, "title", self.path),
            description=read.text(self.schema, "description", self.path),
            default=None if default is None else write_json(default, is_sorted=True),
            connect_type=connect_type if isinstance(connect_type, str) else None,
        )

    def _selected(self, names: Iterable[str]) -> dict[str, Json]:
        return {name: self.schema[name] for name in names if name in self.schema}

    def _parts(self) -> list[_Part]:
        """Lists the rules of the schema with their keywords, in the order of Confluent's registry."""
        if "$ref" in self.schema and not self.draft.is_modern:
            return [(self._reference("$ref"), ("$ref",))]
        parts: list[_Part] = []
        if self.draft.is_modern:
            parts += [(self._reference(name), (name,)) for name in _REFERENCES if name in self.schema]
        if "enum" in self.schema:
            values = read.array(self.schema, "enum", self.path)
            parts.append(
                (EnumValues(frozenset(write_json(value, is_sorted=True) for value in values)), ("enum",))
            )
        parts += [(self._combined(name), (name,)) for name in _COMBINATIONS if name in self.schema]
        if "not" in self.schema:
            parts.append((Not(self._child("not")), ("not",)))
        if "const" in self.schema and self.draft is not Draft.DRAFT_4:
            parts.append((ConstValue(write_json(self.schema["const"], is_sorted=True)), ("const",)))
        parts += self._typed_parts()
        if self._has_condition():
            parts.append((Plain.CONDITIONAL, ("if", "then", "else")))
        if self.draft.is_modern:
            positions = {name: position for position, name in enumerate(self.schema) if name not in _LAST}
            parts.sort(key=lambda part: min(positions.get(name, len(self.schema)) for name in part[1]))
        return parts

    def _typed_parts(self) -> list[_Part]:
        """Lists the rules of `type`, and of the keywords for values of other types."""
        types = self.schema.get("type")
        names = (
            [types]
            if isinstance(types, str)
            else read.texts(read.array(self.schema, "type", self.path), "type")
        )
        # A type that is listed twice means the same as one that is listed once.
        typed = [(name, self._rules_of(name)) for name in dict.fromkeys(names)]
        families = {_family(name) for name in names}
        parts: list[_Part] = []
        if isinstance(types, str):
            parts.append((typed[0][1], ("type", *self._keywords(types))))
        elif typed:
            members = tuple(Node(rules, Annotations(), self._typed(name)) for name, rules in typed)
            parts.append((Combined(Criterion.ANY, members), ("type",)))
        for family in ("array", "object", "number", "string"):
            keywords = self._keywords(family)
            if family not in families and any(map(self._constrains, keywords)):
                parts.append((self._rules_of(family), keywords))
        return parts

    def _typed(self, name: str) -> Json:
        """Returns the keywords of the schema that constrain values of a type."""
        return {"type": name, **self._selected(self._keywords(name))}

    def _rules_of(self, name: str) -> Rules:
        match name:
            case "array":
                return self._array()
            case "object":
                return self._object()
            case "number" | "integer":
                return self._number(is_integer=name == "integer")
            case "string":
                return self._string()
            case "boolean":
                return Plain.BOOLEAN
            case "null":
                return Plain.NULL
            case _:
                raise FormatError(f"Invalid JSON: {self.path}: unknown type: [{name}]")

    def _keywords(self, family: str) -> tuple[str, ...]:
        """The keywords for values of a type, in this draft."""
        match _family(family):
            case "number":
                return _NUMBER_KEYWORDS
            case "string":
                return _STRING_KEYWORDS
            case "object" if self.draft.is_modern:
                modern = ("propertyNames", "dependentRequired", "dependentSchemas", "unevaluatedProperties")
                return (*_OBJECT_KEYWORDS, *modern)
            case "object":
                return (*_OBJECT_KEYWORDS, "dependencies", *self._since_6("propertyNames"))
            case "array" if self.draft.is_modern:
                return (*_ARRAY_KEYWORDS, "prefixItems", "contains", "unevaluatedItems")
            case "array":
                return (*_ARRAY_KEYWORDS, "additionalItems", *self._since_6("contains"))
            case _:
                return ()

    def _constrains(self, keyword: str) -> bool:
        """Whether the schema has a keyword. Skema's library ignores an object without members in some keywords."""
        return keyword in self.schema and not (
            self.draft.is_modern and keyword in _MAPS and not self.schema[keyword]
        )

    def _since_6(self, keyword: str) -> tuple[str, ...]:
        return () if self.draft is Draft.DRAFT_4 else (keyword,)

    def _reference(self, keyword: str) -> Reference:
        name = read.text(self.schema, keyword, self.path)
        assert name is not None, "the caller has looked for the keyword"
        return self.builder.reference(name, self.schema, self.document)

    def _combined(self, keyword: str) -> Combined:
        criterion = Criterion(keyword)
        members: list[Node] = []
        for index, schema in enumerate(read.array(self.schema, keyword, self.path)):
            member = self._at(schema, f"{keyword}/{index}")
            rules = member.rules
            if (
                self.draft.is_modern
                and criterion is Criterion.ALL
                and isinstance(rules, Combined)
                and rules.is_split
            ):
                # Skema's library takes the parts of a member as members of their own, which means the same.
                members += rules.members
            else:
                members.append(member)
        return Combined(criterion, tuple(members))

    def _has_condition(self) -> bool:
        """Whether the schema has a condition. Its schemas are only checked, because a comparison ignores them."""
        if self.draft < Draft.DRAFT_7 or (self.draft.is_modern and "if" not in self.schema):
            return False
        conditions = [name for name in ("if", "then", "else") if name in self.schema]
        for name in conditions:
            self._child(name)
        return bool(conditions)

    def _string(self) -> StringRules:
        read.text(self.schema, "format", self.path)
        pattern = read.text(self.schema, "pattern", self.path)
        if pattern is not None:
            check_pattern(pattern, f"{self.path}/pattern")
        return StringRules(
            min_length=read.integer(self.schema, "minLength", self.path),
            max_length=read.integer(self.schema, "maxLength", self.path),
            pattern=pattern,
        )

    def _number(self, *, is_integer: bool) -> NumberRules:
        if self.draft is Draft.DRAFT_4:
            # Draft 4 has booleans here, which Everit's library does not compare.
            read.boolean(self.schema, "exclusiveMinimum", self.path)
            read.boolean(self.schema, "exclusiveMaximum", self.path)
            lower = upper = None
        else:
            lower = read.number(self.schema, "exclusiveMinimum", self.path)
            upper = read.number(self.schema, "exclusiveMaximum", self.path)
        multiple_of = read.number(self.schema, "multipleOf", self.path)
        if multiple_of is not None and not multiple_of:
            raise FormatError(f"Invalid JSON: {self.path}: multipleOf should not be 0")
        return NumberRules(
            is_integer=is_integer,
            minimum=read.number(self.schema, "minimum", self.path),
            maximum=read.number(self.schema, "maximum", self.path),
            exclusive_minimum=lower,
            exclusive_maximum=upper,
            multiple_of=multiple_of,
        )

    def _object(self) -> ObjectRules:
        properties = self._children("properties")
        arrays, schemas = self._dependencies()
        patterns = self._children("patternProperties")
        for pattern in patterns:
            check_pattern(pattern, f"{self.path}/patternProperties")
        self._optional("propertyNames", self.draft is not Draft.DRAFT_4)
        additional = self.schema.get("additionalProperties", True)
        content = ContentModel(
            is_permitted=additional is not False,
            schema=None if isinstance(additional, bool) else self._child("additionalProperties"),
            unevaluated=self._optional("unevaluatedProperties", self.draft.is_modern),
            has_patterns=bool(patterns),
        )
        required = read.array(self.schema, "required", self.path)
        return ObjectRules(
            content=content,
            properties={name: properties[name] for name in hash_order(properties)},
            patterns=patterns,
            required=frozenset(read.texts(required, f"{self.path}/required")),
            property_dependencies=arrays,
            schema_dependencies=schemas,
            min_properties=read.integer(self.schema, "minProperties", self.path),
            max_properties=read.integer(self.schema, "maxProperties", self.path),
        )

    def _dependencies(self) -> tuple[dict[str, frozenset[str]], dict[str, Node]]:
        arrays: dict[str, frozenset[str]] = {}
        schemas: dict[str, Node] = {}
        for keyword in (
            ("dependentRequired", "dependentSchemas") if self.draft.is_modern else ("dependencies",)
        ):
            for name, value in read.members(self.schema, keyword, self.path).items():
                path = f"{keyword}/{name}"
                if isinstance(value, list) and keyword != "dependentSchemas":
                    arrays[name] = frozenset(read.texts(value, f"{self.path}/{path}"))
                elif keyword == "dependentRequired":
                    raise read.wrong_type(f"{self.path}/{path}", "an array", value)
                else:
                    schemas[name] = self._at(value, path)
        return arrays, schemas

    def _array(self) -> ArrayRules:
        first, every, permits, additional = self._items()
        contains = self._optional("contains", self.draft is not Draft.DRAFT_4)
        least, most = (
            read.whole_number(self.schema, "minContains"),
            read.whole_number(self.schema, "maxContains"),
        )
        if self.draft.is_modern:
            least, most = (None, None) if contains is None else (1 if least is None else least, most)
        return ArrayRules(
            content=ContentModel(
                permits, additional, self._optional("unevaluatedItems", self.draft.is_modern)
            ),
            every_item=every,
            items=first,
            min_items=read.integer(self.schema, "minItems", self.path),
            max_items=read.integer(self.schema, "maxItems", self.path),
            is_unique=read.boolean(self.schema, "uniqueItems", self.path) is True,
            min_contains=least,
            max_contains=most,
        )

    def _items(self) -> tuple[tuple[Node, ...], Node | None, bool, Node | None]:
        """Returns the schemas of the first items and of every item, and whether and how other items are permitted."""
        items = self.schema.get("items", True)
        prefix = "prefixItems" if self.draft.is_modern else "items"
        if isinstance(items, list) and self.draft is Draft.DRAFT_2019_09:
            prefix = "items"
        rest = "items" if prefix == "prefixItems" else "additionalItems"
        first: tuple[Node, ...] = ()
        if prefix == "prefixItems" or isinstance(items, list):
            values = read.array(self.schema, prefix, self.path)
            first = tuple(self._at(value, f"{prefix}/{index}") for index, value in enumerate(values))
        every = None
        if rest == "items" and not first:
            if isinstance(items, bool):
                return first, None, items, None
            return first, self._child("items"), True, None
        if rest == "additionalItems" and "items" in self.schema and not isinstance(items, list):
            every = self._child("items")
        additional = self.schema.get(rest, True)
        schema = None if isinstance(additional, bool) else self._child(rest)
        return first, every, additional is not False or every is not None, schema

    def _optional(self, keyword: str, exists: bool) -> Node | None:
        return self._child(keyword) if exists and keyword in self.schema else None

    def _child(self, keyword: str) -> Node:
        return self._at(self.schema[keyword], keyword)

    def _children(self, keyword: str) -> dict[str, Node]:
        schemas = read.members(self.schema, keyword, self.path)
        return {name: self._at(schema, f"{keyword}/{name}") for name, schema in schemas.items()}

    def _at(self, schema: Json, path: str) -> Node:
        return self.builder.node(Place(schema, self.document, inner_path(self.path, path)))


def _family(name: str) -> str:
    """The type whose keywords a type has: those of integers are the keywords of numbers."""
    return "number" if name == "integer" else name
