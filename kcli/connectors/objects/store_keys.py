"""The keys of the store and of the formats, which the sink and the source share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.config.definition import ConfigKey, ConfigType, ConfigValue, Importance, OneOf, Range, invalid_value
from kcli.connectors.keys import KeyGroup, number, text
from kcli.connectors.objects.formats import (
    AVRO_CODECS,
    BYTES,
    CSV,
    JSON,
    LIBRARIES,
    PARQUET_EXTENSIONS,
    FormatSettings,
    format_named,
)
from kcli.connectors.objects.libraries import check_library
from kcli.connectors.objects.store import S3_SCHEMES, Store, check_libraries
from kcli.formats.connect.errors import ConnectException

STORE_URL = "kcli.store.url"
BUCKET = "s3.bucket.name"
FORMAT = "format.class"
_ONLY_S3 = (
    "store.url", "aws.access.key.id", "aws.secret.access.key", "s3.ssea.name", "s3.sse.kms.key.id", "s3.acl.canned",
)  # fmt: skip
_STRING, _INT = ConfigType.STRING, ConfigType.INT
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


@dataclass(frozen=True, slots=True)
class FormatName:
    """A format: a short name, or the class of Confluent's connectors."""

    def check(self, key: str, value: ConfigValue) -> None:
        if isinstance(value, str) and value and format_named(value) is None:
            raise invalid_value(key, value, f"Unknown format. Expected one of: {self}")

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return [JSON, CSV, "avro", "parquet", BYTES]

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        return True

    def __str__(self) -> str:
        return "json, csv, avro, parquet, bytes, or a format class of Confluent's S3 connector"


def store_keys() -> list[ConfigKey]:
    group = KeyGroup("Store")
    group.add(
        ConfigKey(STORE_URL, _STRING, "", None, _HIGH,
                  "The place of the objects, such as file:///srv/lake or s3://bucket/lake. It takes precedence over"
                  " s3.bucket.name."),
        "Store URL",
    )  # fmt: skip
    group.add(ConfigKey(BUCKET, _STRING, "", None, _HIGH, "The bucket of S3."), "S3 Bucket")
    group.add(
        ConfigKey("s3.region", _STRING, "us-west-2", None, _MEDIUM, "The region of the bucket."), "S3 region"
    )
    group.add(
        ConfigKey("store.url", _STRING, None, None, _LOW, "The URL of an S3-compatible store, such as MinIO."),
        "Store URL of S3",
    )  # fmt: skip
    group.add(
        ConfigKey("aws.access.key.id", _STRING, "", None, _LOW,
                  "The access key. If it is empty, the environment and the files of AWS have the credentials."),
        "AWS Access Key ID",
    )  # fmt: skip
    group.add(
        ConfigKey("aws.secret.access.key", ConfigType.PASSWORD, "", None, _LOW, "The secret of the access key."),
        "AWS Secret Access Key",
    )  # fmt: skip
    group.add(
        ConfigKey("s3.path.style.access.enabled", ConfigType.BOOLEAN, "true", None, _LOW,
                  "Whether the bucket is a part of the path and not of the host name."),
        "S3 Path Style Access",
    )  # fmt: skip
    return group.keys


def format_keys(default: str | None) -> list[ConfigKey]:
    """`default` is the default of format.class. None makes the key required."""
    group = KeyGroup("Format")
    group.add(
        ConfigKey(FORMAT, _STRING, default, FormatName(), _HIGH, f"The format of objects: {FormatName()}.",
                  required=default is None, recommender=FormatName()),
        "Format class",
    )  # fmt: skip
    group.add(
        ConfigKey("format.bytearray.separator", _STRING, None, None, _LOW,
                  "The text after each record of the format bytes. Without the key, it is a line feed."),
        "Separator of records of bytes",
    )  # fmt: skip
    group.add(
        ConfigKey("kcli.csv.delimiter", _STRING, ",", OneOf((",", ";", "|", "\\t")), _LOW,
                  "The character between two cells of CSV. \\t stands for a tabulator."),
        "CSV delimiter",
    )  # fmt: skip
    return group.keys


def compression_keys() -> list[ConfigKey]:
    group = KeyGroup("Compression")
    group.add(
        ConfigKey("s3.compression.type", _STRING, "none", OneOf(("none", "gzip")), _LOW,
                  "The compression of JSON, CSV and bytes."),
        "Compression of text",
    )  # fmt: skip
    group.add(
        ConfigKey("s3.compression.level", _INT, "-1", Range(-1, 9), _LOW, "The level of gzip. -1 is its default."),
        "Level of gzip",
    )  # fmt: skip
    group.add(
        ConfigKey("avro.codec", _STRING, "null", OneOf(AVRO_CODECS), _LOW, "The compression of Avro."),
        "Avro compression",
    )  # fmt: skip
    group.add(
        ConfigKey("parquet.codec", _STRING, "snappy", OneOf(tuple(PARQUET_EXTENSIONS)), _LOW,
                  "The compression of Parquet."),
        "Parquet compression",
    )  # fmt: skip
    return group.keys


def format_settings(values: Mapping[str, ConfigValue], kind: str) -> FormatSettings:
    separator = values["format.bytearray.separator"]
    delimiter = text(values, "kcli.csv.delimiter").replace("\\t", "\t")
    settings = FormatSettings(
        kind,
        separator=b"\n" if not separator else str(separator).encode(),
        csv_delimiter=delimiter,
    )
    if "avro.codec" not in values:
        return settings
    level = number(values, "s3.compression.level")
    return FormatSettings(
        kind,
        gzip_level=None if values["s3.compression.type"] == "none" else 6 if level < 0 else level,
        avro_codec=text(values, "avro.codec"),
        parquet_codec=text(values, "parquet.codec"),
        separator=settings.separator,
        bytes_extension=text(values, "format.bytearray.extension"),
        csv_delimiter=delimiter,
    )


def store_url(values: Mapping[str, ConfigValue]) -> str:
    """Empty if the configuration names no store."""
    bucket = text(values, BUCKET)
    return text(values, STORE_URL) or (f"s3://{bucket}" if bucket else "")


def open_store(values: Mapping[str, ConfigValue]) -> Store:
    """Raises ConnectException if a library is missing."""
    url = store_url(values)
    options: dict[str, object] = {}
    if url.startswith(S3_SCHEMES):
        style = "path" if values["s3.path.style.access.enabled"] else "virtual"
        options = {
            "key": values["aws.access.key.id"] or None,
            "secret": values["aws.secret.access.key"] or None,
            "endpoint_url": values["store.url"] or None,
            "client_kwargs": {"region_name": values["s3.region"]},
            "config_kwargs": {"s3": {"addressing_style": style}},
        }
    return Store(url, options)


def store_errors(values: Mapping[str, ConfigValue], kind: str | None) -> dict[str, Sequence[str]]:
    """The errors that a validation shows: no store, or a missing library. It does not open the store."""
    url = store_url(values)
    if not url:
        reason = f"Set {STORE_URL} or {BUCKET}"
        return {STORE_URL: [reason], BUCKET: [reason]}
    errors: dict[str, Sequence[str]] = {}
    if not url.startswith(S3_SCHEMES):
        reason = f"The key has an effect only on a store of S3, not on {url}"
        errors |= {key: [reason] for key in _ONLY_S3 if values.get(key)}
    try:
        check_libraries(url)
    except ConnectException as error:
        errors[STORE_URL] = [str(error)]
    try:
        if kind is not None and kind in LIBRARIES:
            check_library(LIBRARIES[kind])
    except ConnectException as error:
        errors[FORMAT] = [str(error)]
    return errors
