"""The differences between two schemas, by lines of their indented texts."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from kcli.formats.registry.documents import RegisteredSchema

LINES_COMPARED_MAX = 2_000
"""From this length on, two texts are not compared line by line, because that takes quadratic time."""

GROWTH_MAX = 20
"""How many times longer a text may become by indentation. A usual schema becomes about three times as long."""


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line of a diff: a space for an equal line, `-` for one of the older version, `+` for one of the newer."""

    change: str
    line: str


def line_changes(old: RegisteredSchema, new: RegisteredSchema) -> Iterator[LineChange]:
    """The lines of both versions, or nothing if they are equal."""
    before, after = shown_lines(old), shown_lines(new)
    if before == after:
        return
    if max(len(before), len(after)) > LINES_COMPARED_MAX:
        yield from (LineChange("-", line) for line in before)
        yield from (LineChange("+", line) for line in after)
        return
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            yield from (LineChange(" ", line) for line in before[start:end])
        else:
            yield from (LineChange("-", line) for line in before[start:end])
            yield from (LineChange("+", line) for line in after[new_start:new_end])


def shown_lines(schema: RegisteredSchema) -> list[str]:
    """The lines that a diff compares: the type, the references, the rules and metadata, and the indented text."""
    definition = schema.definition
    lines = [f"# type {definition.type}"] if definition.type != "AVRO" else []
    lines += [
        f"# reference {reference.name} = {reference.subject} version {reference.version}"
        for reference in definition.references
    ]
    for name, document in (("metadata", definition.metadata), ("rules", definition.rule_set)):
        if document is not None:
            lines.append(f"# {name} {json.dumps(document.to_json(), ensure_ascii=False)}")
    return lines + pretty(definition.text).splitlines()


def pretty(text: str) -> str:
    """The text of a schema with indentation, if it is JSON. Otherwise, and if the indentation of deeply nested parts
    would make a text far longer, the text as it is."""
    plain, parts, left = text.removesuffix("\n"), [], GROWTH_MAX * len(text)
    try:
        for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(text)):
            parts.append(part)
            left -= len(part)
            if left < 0:
                return plain
    except (ValueError, RecursionError):
        return plain
    return "".join(parts)
