"""The formats of objects: JSON lines, CSV, Avro, Parquet and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

JSON, CSV, AVRO, PARQUET, BYTES = "json", "csv", "avro", "parquet", "bytes"
LIBRARIES: Mapping[str, str] = {AVRO: "fastavro", PARQUET: "pyarrow"}
"""The library of a format that needs one."""
PARQUET_EXTENSIONS: Mapping[str, str] = {
    "none": "", "uncompressed": "", "snappy": ".snappy", "gzip": ".gz", "brotli": ".br", "lz4": ".lz4",
    "zstd": ".zstd",
}  # fmt: skip
AVRO_CODECS = ("null", "deflate", "snappy", "bzip2")
_CLASSES: Mapping[str, str] = {
    "jsonformat": JSON,
    "avroformat": AVRO,
    "parquetformat": PARQUET,
    "bytearrayformat": BYTES,
}
_NAMES: Mapping[str, str] = {name: name for name in (JSON, CSV, AVRO, PARQUET, BYTES)} | {"jsonl": JSON}
_BY_EXTENSION: Mapping[str, str] = {
    ".json": JSON, ".jsonl": JSON, ".csv": CSV, ".avro": AVRO, ".parquet": PARQUET, ".bin": BYTES,
}  # fmt: skip


def format_named(name: str) -> str | None:
    """The format of a short name or of a class name of Confluent's connectors. None for an unknown name."""
    last = name.rpartition(".")[2].lower()
    return _NAMES.get(name.lower()) or _CLASSES.get(last.removeprefix("cloudstorage"))


def format_of_object(name: str) -> str | None:
    """The format by the extension of an object, such as `.json.gz`. None for an unknown extension."""
    stem = name.lower().removesuffix(".gz")
    return _BY_EXTENSION.get(f".{stem.rpartition('.')[2]}")


@dataclass(frozen=True, slots=True)
class FormatSettings:
    """A format and its keys."""

    kind: str
    gzip_level: int | None = None
    """The compression of JSON, CSV and bytes. None stands for no compression."""
    avro_codec: str = "null"
    parquet_codec: str = "snappy"
    separator: bytes = b"\n"
    """Ends each record of the format `bytes`."""
    bytes_extension: str = ".bin"
    csv_delimiter: str = ","

    @property
    def extension(self) -> str:
        gzip = "" if self.gzip_level is None else ".gz"
        match self.kind:
            case "avro":
                return ".avro"
            case "parquet":
                return f"{PARQUET_EXTENSIONS[self.parquet_codec]}.parquet"
            case "bytes":
                return f"{self.bytes_extension}{gzip}"
            case kind:
                return f".{kind}{gzip}"


class Encoder(Protocol):
    """Writes the values of one object. All have one schema."""

    def add(self, values: Sequence[object]) -> None: ...

    def finish(self) -> None:
        """Writes what must be at the end. The upload is not finished."""
        ...
