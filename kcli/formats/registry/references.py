"""Loads the schemas to which a schema refers."""

from __future__ import annotations

from collections.abc import Iterable

from kcli.formats.codec import FormatError
from kcli.formats.registry.client import LATEST, RegistryClient, Version
from kcli.formats.registry.contexts import beside
from kcli.formats.schemas import SchemaReference

REFERENCES_MAX = 1_000
"""The most schemas to which a schema may refer, directly and indirectly."""

DEPTH_MAX = 100
"""The longest chain of references."""


def in_context(subject: str, referrer: str | None) -> str:
    """Returns the subject of a reference. A plain name belongs to the context of the subject that refers to it."""
    return subject if referrer is None else beside(referrer, subject)


async def resolved_references(
    client: RegistryClient, references: Iterable[SchemaReference], referrer: str | None = None
) -> dict[str, str]:
    """Returns the texts of all schemas that are referenced directly and indirectly, by the names of the references,
    each after those that it uses. `referrer` is the subject of the schema with these references.

    Raises FormatError if there are too many, and RegistryError.
    """
    texts: dict[str, str] = {}
    begun: set[str] = set()

    async def add(listed: Iterable[SchemaReference], owner: str | None, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise FormatError(f"the schema has a chain of more than {DEPTH_MAX} references")
        for reference in listed:
            if reference.name in begun:
                continue
            begun.add(reference.name)
            if len(begun) > REFERENCES_MAX:
                raise FormatError(f"the schema refers to more than {REFERENCES_MAX} schemas")
            subject = in_context(reference.subject, owner)
            version: Version = LATEST if reference.version == -1 else reference.version
            # A version that was deleted softly still serves the schemas that refer to it.
            referenced = (await client.version(subject, version, deleted=True)).definition
            await add(referenced.references, subject, depth + 1)
            texts[reference.name] = referenced.text

    await add(references, referrer, 0)
    return texts
