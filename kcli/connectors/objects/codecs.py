"""The encoder and the reader of an object, by its format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from kcli.connectors.objects.formats import Encoder, FormatSettings
from kcli.connectors.objects.store import Upload
from kcli.connectors.objects.text_formats import read_text, text_encoder
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.schema import Schema


def encoder(settings: FormatSettings, schema: Schema | None, target: Upload, name: str) -> Encoder:
    """An encoder of the object `name`. Raises ConnectException if the format cannot have values of this schema."""
    # A format is imported when it is used, because pyarrow and fastavro are optional and large.
    match settings.kind:
        case "avro":
            from kcli.connectors.objects.avro_format import AvroEncoder

            return AvroEncoder(settings.avro_codec, schema, target, name)
        case "parquet":
            from kcli.connectors.objects.parquet_format import ParquetEncoder

            return ParquetEncoder(settings.parquet_codec, schema, target)
        case _:
            return text_encoder(settings, schema, target)


def read_values(settings: FormatSettings, file: IO[bytes], position: int) -> Iterator[SchemaAndValue]:
    """The values of an object after the first `position` values. Raises ConnectException for invalid content."""
    match settings.kind:
        case "avro":
            from kcli.connectors.objects.avro_format import read_avro

            return read_avro(file, position)
        case "parquet":
            from kcli.connectors.objects.parquet_format import read_parquet

            return read_parquet(file, position)
        case _:
            return read_text(settings, file, position)
