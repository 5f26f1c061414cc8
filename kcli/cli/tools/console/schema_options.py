"""The options of the console producer and the console consumer for keys and values with schemas of a registry."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kcli.cli.syntax.options import ConnectingOptions, Kind, UsageError, option

FORMATS = ("avro", "protobuf", "json-schema")
DEFAULT_URL = "http://localhost:8081"
URL = "schema.registry.url"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions(ConnectingOptions):
    """The options of the console producer and the console consumer for schemas."""

    value_format: str | None = option(
        "The format of values with schemas of a registry.", choices=FORMATS, metavar="format"
    )
    key_format: str | None = option(
        "The format of keys with schemas of a registry. Without this option, keys are text.",
        choices=FORMATS,
        metavar="format",
    )
    schema_registry: str | None = option(
        f"The URLs of the schema registry, separated by commas ({URL}). Default: the property of this name, or "
        f"{DEFAULT_URL}.",
        metavar="URL",
    )
    schema: str | None = option("The file with the schema of values.", metavar="file")
    key_schema: str | None = option("The file with the schema of keys.", metavar="file")


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingFormatOptions(FormatOptions):
    """The options of the console producer for schemas."""

    value_schema_id: int | None = option(
        "Write values with the schema of this id, in place of --schema.", Kind.INTEGER, metavar="id"
    )
    key_schema_id: int | None = option(
        "Write keys with the schema of this id, in place of --key-schema.", Kind.INTEGER, metavar="id"
    )
    value_subject: str | None = option(
        "The subject of the schema of values. Without --schema, values are written with the latest version of the "
        "subject.",
        metavar="subject",
    )
    key_subject: str | None = option("The subject of the schema of keys.", metavar="subject")
    value_message: str | None = option(
        "Protobuf: the full name of the message of values. Default: the first message of the schema.",
        metavar="name",
    )
    key_message: str | None = option("Protobuf: the full name of the message of keys.", metavar="name")


def uses_schemas(options: FormatOptions) -> bool:
    return options.value_format is not None or options.key_format is not None


def unknown_properties(options: FormatOptions, names: Iterable[str], known: Collection[str]) -> list[str]:
    """Returns the properties of a reader or formatter that neither are in `known` nor have a meaning for schemas."""
    unknown = [name for name in names if name not in known]
    if not unknown or not uses_schemas(options):
        return unknown
    from kcli.cli.tools.console.schema_formats import is_known

    return [name for name in unknown if not is_known(options, name)]


def refuse_without_format(options: FormatOptions) -> None:
    """Raises UsageError for an option that would be ignored."""
    for name in ("schema", "schema-registry", "value-schema-id", "value-subject", "value-message"):
        if options.has(name):
            raise UsageError(f"--{name} needs --value-format")
    for name in ("key-schema", "key-schema-id", "key-subject", "key-message"):
        if options.has(name):
            raise UsageError(f"--{name} needs --key-format")
