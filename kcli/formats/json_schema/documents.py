"""Finds the schemas that `$ref` names: in the document, in referenced documents, and in the drafts' own schemas.

A document is never fetched from the network. A program that permits remote schemas gives their texts as references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urljoin, urlsplit

from kcli.formats.codec import FormatError
from kcli.formats.json_schema.drafts import Draft, draft_of
from kcli.formats.json_schema.text import TEXT_BYTES_MAX, Json, read_json
from kcli.model.java_text import natural

URI_MAX = 4_096
"""The most characters of a URI, because each schema with an `$id` keeps its URI."""
NAMES_MAX = 10_000
"""The most names of schemas: URIs and anchors."""
PATH_MAX = 300
"""The most characters of a path in a message. Each schema makes a path, so longer ones are cut."""

_SUB_SCHEMES = ("urn:", "tag:")


class RemoteReferenceError(FormatError):
    """Raised for a reference to a document that only the network has."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document with schemas. `base` is its own URI, or the name of the reference."""

    root: Json
    draft: Draft
    base: str


@dataclass(frozen=True, slots=True)
class Place:
    """A schema in a document. `path` is its JSON pointer, as messages show it."""

    schema: Json
    document: Document
    path: str


@dataclass(slots=True)
class Documents:
    """The document of a schema, and the documents that it may refer to. `references` are their texts by name."""

    main: Document
    references: Mapping[str, str]
    _by_uri: dict[str, Document] = field(default_factory=dict)
    _places: dict[str, Place] = field(default_factory=dict)
    _bases: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Json, resolved: Mapping[str, str]) -> Documents:
        """Returns the documents of a schema and its references by name. Raises FormatError."""
        total = sum(map(len, resolved.values()))
        if total > TEXT_BYTES_MAX:
            raise FormatError(
                f"Invalid JSON: references have {total} characters, expected at most {TEXT_BYTES_MAX}"
            )
        documents = cls(_document(root, ""), dict(resolved))
        documents._add(documents.main, "")
        for name, text in resolved.items():
            document = _document(read_json(text), joined(documents.main.base, name))
            documents._add(document, name)
        return documents

    def base_of(self, schema: Json, document: Document) -> str:
        """Returns the URI with which references in a schema are joined."""
        return self._bases.get(id(schema), document.base)

    def target(self, reference: str, schema: Json, document: Document) -> Place:
        """Returns the schema that a reference names. `schema` has the reference. Raises FormatError."""
        uri = joined(self.base_of(schema, document), reference)
        for place in self._candidates(uri, reference, document):
            if place is not None:
                return place
        location = uri.partition("#")[0]
        if location.startswith(("http:", "https:")) and location not in self._by_uri:
            raise RemoteReferenceError(
                f"Remote schema reference fetching over HTTP(S) is disabled: {location}"
            )
        raise FormatError(f"Invalid JSON: could not resolve $ref '{reference}'")

    def _candidates(self, uri: str, reference: str, document: Document) -> Iterator[Place | None]:
        """Lists the places where the schema may be, the best one first."""
        location, _, fragment = uri.partition("#")
        for name in (uri, reference):
            yield self._places.get(name.removesuffix("#"))
        if reference.startswith("#") and not document.draft.is_modern:
            yield _at_pointer(document, fragment)
        embedded = self._places.get(location)
        if embedded is not None:
            # A schema with an `$id` of its own is a document for the pointers of references to it.
            place = _at_pointer(Document(embedded.schema, embedded.document.draft, location), fragment)
            yield place and Place(place.schema, embedded.document, inner_path(embedded.path, place.path))
        if reference.startswith("#"):
            yield _at_pointer(document, fragment)
        other = self._by_uri.get(location) or self._by_uri.get(reference.partition("#")[0])
        other = other or self._standard(location)
        if other is not None:
            yield _at_pointer(other, fragment)
            yield self._places.get(f"{other.base.partition('#')[0]}#{fragment}")

    def _standard(self, location: str) -> Document | None:
        """Returns a schema of the standard, for example of draft 7."""
        from jsonschema_specifications import (
            REGISTRY,
        )  # imported late, because few schemas refer to the standard

        for name in (location, f"{location}#"):
            for uri in (name, name.replace("https://", "http://", 1)):
                if uri in REGISTRY:
                    document = _document(REGISTRY[uri].contents, location)
                    self._add(document, location)
                    return document
        return None

    def _add(self, document: Document, name: str) -> None:
        self._by_uri.setdefault(name, document)
        self._by_uri.setdefault(document.base.partition("#")[0], document)
        for schema, base in _objects(document):
            if base != document.base:
                self._bases[id(schema)] = base
            own_id = schema.get(document.draft.id_keyword)
            names = [base, own_id] if isinstance(own_id, str) else []
            if document.draft.is_modern:
                anchors = [schema.get(keyword) for keyword in ("$anchor", "$dynamicAnchor")]
                names += [joined(base, f"#{anchor}") for anchor in anchors if isinstance(anchor, str)]
            for uri in names:
                self._places.setdefault(uri.removesuffix("#"), Place(schema, document, uri))
            if len(self._places) > NAMES_MAX:
                raise FormatError(f"Invalid JSON: the schemas have more than {NAMES_MAX} names")


def inner_path(path: str, name: str) -> str:
    """Returns the path of a part of a schema, for messages."""
    return path if len(path) > PATH_MAX else f"{path}/{name[:PATH_MAX]}"


def joined(base: str, reference: str) -> str:
    """Returns the URI of a reference in a document. Raises FormatError if it is too long."""
    if len(base) + len(reference) > URI_MAX:
        raise FormatError(f"Invalid JSON: a URI has more than {URI_MAX} characters")
    if reference.startswith("#"):
        return base.partition("#")[0] + reference
    try:
        if base.startswith(_SUB_SCHEMES) and not urlsplit(reference).scheme:
            return base + reference
        return urljoin(base, reference.removeprefix("./"))
    except ValueError:
        return reference


def _document(root: Json, name: str) -> Document:
    draft = draft_of(root)
    own_id = root.get(draft.id_keyword) if isinstance(root, dict) else None
    base = joined(name, own_id) if isinstance(own_id, str) else name
    return Document(root, draft, base)


def _objects(document: Document) -> Iterator[tuple[dict[str, Json], str]]:
    """Lists the objects of a document with their base URIs."""
    pending: list[tuple[Json, str]] = [(document.root, document.base)]
    while pending:
        value, base = pending.pop()
        match value:
            case dict():
                own_id = value.get(document.draft.id_keyword)
                if isinstance(own_id, str) and value is not document.root:
                    base = joined(base, own_id)
                yield value, base
                pending += [(item, base) for item in value.values()]
            case list():
                pending += [(item, base) for item in value]


def _at_pointer(document: Document, fragment: str) -> Place | None:
    """Returns the schema at a JSON pointer. `#/$defs/…` may also name a schema of `definitions`, as in Confluent's."""
    if fragment and not fragment.startswith("/"):
        return None
    names = [unquote(name).replace("~1", "/").replace("~0", "~") for name in fragment.split("/")[1:]]
    place = _at_names(document, names)
    if place is None and names[0] == "$defs":
        return _at_names(document, ["definitions", *names[1:]])
    return place


def _at_names(document: Document, names: list[str]) -> Place | None:
    value = document.root
    for name in names:
        index = natural(name)
        match value:
            case dict() if name in value:
                value = value[name]
            case list() if index is not None and index < len(value):
                value = value[index]
            case _:
                return None
    return Place(value, document, inner_path("#", "/".join(names)) if names else "#")
