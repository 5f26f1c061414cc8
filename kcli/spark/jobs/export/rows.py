"""Reads and decodes the rows that the job `export` writes, and converts them to types that the file format supports."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.spark.jobs.export.options import (
    COLUMN_TYPES,
    DATE,
    ExportOptions,
    columns,
    is_decoded,
    needs_headers,
    reading,
    values_as,
)
from kcli.spark.jobs.records.bad_input import KAFKA_ORIGIN, bad_input, sifted
from kcli.spark.jobs.records.sample import inferred_columns
from kcli.spark.jobs.records.values import ERROR, RECORD, ValueSpec, decoded, for_topic, is_inferred
from kcli.spark.jobs.shared.endpoints import reader_options
from kcli.spark.jobs.shared.options import names
from kcli.spark.jobs.shared.running import Counts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def selected(spark: SparkSession, options: ExportOptions, counts: Counts) -> DataFrame:
    """Returns a frame with the rows and columns to write."""
    chosen = columns(options)
    needed = [name for name in chosen if name in COLUMN_TYPES]
    if DATE in chosen and "timestamp" not in needed:
        needed.append("timestamp")
    if is_decoded(options):
        extra = ["key"] if bad_input(options).needs_headers else []
        extra += ["headers"] if needs_headers(options) else []
        needed += [name for name in ("value", *KAFKA_ORIGIN, *extra) if name not in needed]
    reader = spark.read if not options.is_stream else spark.readStream
    schema = ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in needed)
    frame = reader.format("kcli").options(**reading(options)).schema(schema).load()
    if not is_decoded(options):
        return counts.rows(frame).select(*_selected(options, chosen))
    from pyspark.sql.functions import col

    frame = decoded(frame, with_columns(options))
    origin = {name: col(name) for name in KAFKA_ORIGIN}
    frame = sifted(frame, col(ERROR), origin, bad_input(options), counts)
    return frame.select(*_selected(options, chosen))


def with_columns(options: ExportOptions) -> ValueSpec:
    """Returns the format of the values. For JSON without --value-schema, the columns are inferred from records. With
    --schema-registry, they are those of the latest version of the schema."""
    listed = names(options.topic)
    spec = for_topic(options.values, listed[0] if len(listed) == 1 else None)
    if not is_inferred(spec):
        return spec
    return replace(spec, columns=inferred_columns(reader_options(options)))


def _selected(options: ExportOptions, chosen: list[str]) -> list[Column]:
    """Returns the columns to write, converted for the file format. CSV has no lists, and CSV and JSON have no bytes."""
    from pyspark.sql.functions import base64, col, expr, to_date

    form = values_as(options)
    selected = []
    for name in chosen:
        if name == "value" and is_decoded(options):
            selected.append(col(RECORD).alias(name))
        elif name in ("key", "value"):
            forms = {"binary": col(name), "string": col(name).cast("string"), "base64": base64(col(name))}
            selected.append(forms[form].alias(name))
        elif name == "headers" and form != "binary":
            value = "string(h.value)" if form == "string" else "base64(h.value)"
            entries = f"transform(headers, h -> struct(h.key as key, {value} as value))"
            selected.append(expr(f"to_json({entries})" if options.format == "csv" else entries).alias(name))
        elif name == DATE:
            selected.append(to_date(col("timestamp")).alias(DATE))
        else:
            selected.append(col(name))
    return selected
