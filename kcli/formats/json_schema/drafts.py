"""The drafts of JSON Schema, and the differences between them that matter for reading a schema."""

from __future__ import annotations

import enum

from kcli.formats.json_schema.text import Json


class Draft(enum.IntEnum):
    """A draft that Confluent's registry accepts."""

    DRAFT_4 = 4
    DRAFT_6 = 6
    DRAFT_7 = 7
    DRAFT_2019_09 = 2019
    DRAFT_2020_12 = 2020

    @property
    def id_keyword(self) -> str:
        return "id" if self is Draft.DRAFT_4 else "$id"

    @property
    def is_modern(self) -> bool:
        """Whether `$ref` may have siblings, and the keywords of draft 2019-09 exist."""
        return self >= Draft.DRAFT_2019_09


_PATHS = {
    "json-schema.org/schema": Draft.DRAFT_4,
    "json-schema.org/draft-04/schema": Draft.DRAFT_4,
    "json-schema.org/draft-06/schema": Draft.DRAFT_6,
    "json-schema.org/draft-07/schema": Draft.DRAFT_7,
    "json-schema.org/draft/2019-09/schema": Draft.DRAFT_2019_09,
    "json-schema.org/draft/2020-12/schema": Draft.DRAFT_2020_12,
}


def draft_of(document: Json) -> Draft:
    """Returns the draft that `$schema` names. Without a known name it is draft 7, as in Confluent's registry."""
    name = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(name, str):
        return Draft.DRAFT_7
    path = name.removesuffix("#").removeprefix("https://").removeprefix("http://")
    return _PATHS.get(path, Draft.DRAFT_7)
