"""Schemas in files, and the references that the command line gives them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.schemas.connection import version_number
from kcli.formats.registry.client import RegistryClient
from kcli.formats.registry.documents import SchemaDefinition
from kcli.formats.schemas import SchemaReference, SchemaType

FILE_BYTES_MAX = 16 << 20
"""The largest file with a schema. A registry refuses schemas that are far smaller."""

SUFFIXES: Mapping[str, SchemaType] = {
    ".avsc": SchemaType.AVRO,
    ".json": SchemaType.JSON,
    ".proto": SchemaType.PROTOBUF,
}

TYPE_WORDS = ("avro", "json", "protobuf")


def read_text(path: Path) -> str:
    """Reads a file as text. Raises CommandError."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise CommandError(f"{path}: a schema has {FILE_BYTES_MAX >> 20} MB at most")
        return content.decode("utf-8", "surrogatepass")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path}: the schema is not UTF-8") from None


def type_of(path: Path, word: str | None) -> SchemaType:
    """The type of the schema in a file: the type of --type, or that of the file's suffix. Raises CommandError."""
    if word is not None:
        return SchemaType(word.upper())
    schema_type = SUFFIXES.get(path.suffix)
    if schema_type is None:
        known = ", ".join(SUFFIXES)
        raise CommandError(f"{path}: expected a file that ends with {known}, or the option --type")
    return schema_type


def subject_of(path: Path) -> str:
    """The subject of a file without --subject: its name without the suffix, in which %2F and so on are decoded."""
    return unquote(path.stem)


def schema_files(paths: Sequence[str]) -> list[Path]:
    """Returns files, and the files with schemas below directories, sorted. Raises CommandError."""
    files: list[Path] = []
    for text in paths:
        path = Path(text)
        if not path.is_dir():
            files.append(path)
            continue
        below = sorted(
            Path(directory, name)
            for directory, _, names in os.walk(path)
            for name in names
            if Path(name).suffix in SUFFIXES and name not in NOT_SCHEMAS
        )
        if not below:
            raise CommandError(f"{path} has no file that ends with {', '.join(SUFFIXES)}")
        files += below
    return files


NOT_SCHEMAS = ("subject.json", "registry.json")
"""Files that an export writes beside those of schemas."""


async def references_of(client: RegistryClient, texts: Sequence[str]) -> tuple[SchemaReference, ...]:
    """Reads arguments such as `name=subject:version`. The version `latest` becomes a number, because a reference must
    not change its meaning. Raises CommandError."""
    references = []
    for text in texts:
        name, equals, target = text.rpartition("=")
        subject, colon, version = target.rpartition(":")
        if not (name and equals and subject and colon):
            raise CommandError(f"--reference {text}: expected name=subject:version")
        number = version_number(version)
        if not isinstance(number, int):
            number = (await client.version(subject, number)).version
        references.append(SchemaReference(name, subject, number))
    return tuple(references)


async def definition_of(
    client: RegistryClient, path: Path, type_word: str | None, references: Sequence[str]
) -> SchemaDefinition:
    """The schema of a file. Raises CommandError."""
    return SchemaDefinition(
        read_text(path), type_of(path, type_word).value, await references_of(client, references)
    )
