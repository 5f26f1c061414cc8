"""Compatibility checks that also work with registries that have fewer resources than Confluent's."""

from __future__ import annotations

from kcli.formats.registry.catalog import is_missing
from kcli.formats.registry.client import LATEST, RegistryClient, Version
from kcli.formats.registry.documents import CompatibilityAnswer, ConfigDocument, SchemaDefinition
from kcli.formats.registry.errors import NOT_FOUND, RegistryRefused


async def level_of(client: RegistryClient, subject: str | None) -> ConfigDocument:
    """The config that counts for a subject. Old registries only have that of the subject or of all subjects."""
    if subject is not None:
        try:
            config = await client.config(subject, default_to_global=True)
        except RegistryRefused as error:
            if error.status != NOT_FOUND:
                raise
        else:
            if config.compatibility_level:
                return config
    return await client.config()


async def registry_answer(
    client: RegistryClient, subject: str, definition: SchemaDefinition, *, normalize: bool
) -> CompatibilityAnswer:
    """Whether the registry would register a schema. A registry that only compares with one version at a time, such as
    Karapace, compares with each that the level names."""
    try:
        return await client.check(subject, definition, normalize=normalize)
    except RegistryRefused as error:
        if not is_missing(error):
            raise
    config, live = await level_of(client, subject), await live_versions(client, subject)
    is_transitive = (config.compatibility_level or "").upper().endswith("_TRANSITIVE")
    numbers: list[Version] = [*reversed(live)] if is_transitive else [LATEST]
    answer = CompatibilityAnswer(is_compatible=True)
    for number in numbers if live else []:
        answer = await client.check(subject, definition, number, normalize=normalize)
        if not answer.is_compatible:
            break
    return answer


async def live_versions(client: RegistryClient, subject: str) -> list[int]:
    """The versions of a subject, or none if the registry does not know the subject."""
    try:
        return sorted(await client.versions(subject))
    except RegistryRefused as error:
        if error.status == NOT_FOUND:
            return []
        raise
