"""Decodes the values of record batches by schemas of a registry. Runs in an executor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.formats.codec import FormatError
from kcli.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kcli.spark.registry_values import ReadColumns


def decoded_batches(
    batches: Iterator[pa.RecordBatch], values: ReadColumns, schema: pa.Schema, part: TopicPartition
) -> Iterator[pa.RecordBatch]:
    """Yields the batches with the columns of `schema`. The batches also have `value`, `headers` and `offset`.

    If `schema` has the column valueError, a value that cannot be decoded is null, and this column has the reason.
    Otherwise raises FormatError, with the offset of the record.
    """
    import pyarrow as pa

    decode = values.decoder()
    has_errors = "valueError" in schema.names
    for batch in batches:
        decoded = decode(batch.column("value"), batch.column("headers"))
        errors = decoded.field("error")
        if not has_errors and errors.null_count < len(errors):
            nth = errors.is_valid().index(True).as_py()
            offset = batch.column("offset")[nth]
            raise FormatError(
                f"topic {part.topic}, partition {part.partition}, offset {offset}: {errors[nth]}"
            )
        made = {"value": decoded.field("record"), "valueError": errors}
        columns = [made[name] if name in made else batch.column(name) for name in schema.names]
        # Lists of the decoder name their items in another way than Spark.
        columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
