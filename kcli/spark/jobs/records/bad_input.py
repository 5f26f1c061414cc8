"""What happens to a record that does not parse: the one implementation for all jobs.

A job gives each row an error (null where it is well) and columns that say where the row came from. `sifted` then
hands on the rows without error and, as the user chose, fails naming the first bad row, counts the bad ones, or sends
them to a dead-letter topic. Dead letters are produced by the worker that meets them, before the micro-batch is
committed: a task or micro-batch that runs again sends them again (at least once). Their headers have the names of
Kafka Connect (KIP-298).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.command.options import option
from kcli.spark.client.cluster import Cluster
from kcli.spark.jobs.shared.endpoints import client_options
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.options import JobOptions
from kcli.spark.jobs.shared.running import BAD_RECORDS, Counts
from kcli.spark.options import sink_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

FAIL, DROP, DEAD_LETTER = "fail", "drop", "dead-letter"

HEADER_PREFIX = "__connect.errors."
ERROR_HEADER = HEADER_PREFIX + "exception.message"

KAFKA_ORIGIN = ("topic", "partition", "offset")
"""The columns that say where a record of a topic came from."""


@dataclass(frozen=True, slots=True)
class BadInput:
    """The user's choice; `sink` are the options of the dead-letter topic."""

    policy: str = FAIL
    sink: Mapping[str, str] | None = None

    @property
    def needs_headers(self) -> bool:
        """A dead letter keeps the headers of the record."""
        return self.policy == DEAD_LETTER


@dataclass(frozen=True, kw_only=True)
class BadInputOptions(JobOptions):
    """The options of a job that parses what it reads."""

    on_bad_record: str = option(
        "A record that does not parse: fail, drop and count, or send to --dead-letter-topic.",
        choices=(FAIL, DROP, DEAD_LETTER),
        default=FAIL,
    )
    dead_letter_topic: str | None = option(
        f"For {DEAD_LETTER}: gets the record as it was, and headers with the error and the origin of the record.",
        metavar="NAME",
    )


def bad_input(options: BadInputOptions) -> BadInput:
    """The user's choice. JobError if the options do not fit each other."""
    if options.on_bad_record != DEAD_LETTER:
        if options.dead_letter_topic is not None:
            raise JobError(f"--dead-letter-topic is for --on-bad-record {DEAD_LETTER}")
        return BadInput(options.on_bad_record)
    if options.dead_letter_topic is None:
        raise JobError(f"--on-bad-record {DEAD_LETTER} needs --dead-letter-topic")
    if options.bootstrap_server is None:
        raise JobError(f"--on-bad-record {DEAD_LETTER} needs --bootstrap-server")
    sink = client_options(options) | {"topic": options.dead_letter_topic}
    sink_options(sink)
    return BadInput(DEAD_LETTER, sink)


def sifted(
    frame: DataFrame, error: Column, origin: Mapping[str, Column], chosen: BadInput, counts: Counts
) -> DataFrame:
    """The rows of `frame` whose `error` is null. `origin` are the columns that say where a row came from, by name.

    A dead letter is the row's columns `key`, `value` and `headers`, where there are such.
    """
    from pyspark.sql.functions import col, concat, count, lit, raise_error, when

    frame = frame.withColumn("_error", error)
    frame = counts.observed(
        frame, rows=count(lit(1)) - count(col("_error")), **{BAD_RECORDS: count(col("_error"))}
    )
    bad = col("_error").isNotNull()
    if chosen.policy == FAIL:
        places = [
            part for name, column in origin.items() for part in (lit(f", {name} "), column.cast("string"))
        ]
        message = concat(lit("a record does not parse"), *places, lit(": "), col("_error"))
        return frame.where(when(bad, raise_error(message).cast("boolean")).otherwise(lit(True))).drop(
            "_error"
        )
    if chosen.policy == DROP:
        return frame.where(~bad).drop("_error")
    assert chosen.sink is not None
    letter = [name for name in ("key", "value", "headers") if name in frame.columns]
    send = _sender(dict(chosen.sink), (*letter, ERROR_HEADER, *(HEADER_PREFIX + name for name in origin)))
    columns = [*map(col, letter), col("_error"), *(column.cast("string") for column in origin.values())]
    # Only bad rows carry anything over to Python.
    return frame.where(~bad | send(*(when(bad, column) for column in columns))).drop("_error")


def _sender(sink: dict[str, str], names: tuple[str, ...]) -> Callable[..., Column]:
    """A function for Spark that sends the rows whose error is not null, and is false for each row."""
    from pyspark.sql.functions import arrow_udf

    def send(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        yield from send_dead_letters(batches, sink, names)

    import pyarrow as pa

    # PySpark reads the kind of function off its annotations, which must therefore be types and not their names.
    send.__annotations__ = {"batches": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    return arrow_udf(send, "boolean").asNondeterministic()


def send_dead_letters(
    batches: Iterator[tuple[pa.Array, ...]], sink: dict[str, str], names: tuple[str, ...]
) -> Iterator[pa.Array]:
    """In an executor. `names` say what each array is: key, value, headers, or else the name of a header."""
    import numpy as np
    import pyarrow as pa

    from kcli.spark.sink.producer import Producer
    from kcli.spark.sink.rows import Router

    options = sink_options(sink)
    with Cluster(options.client) as cluster:
        connected: tuple[Producer, Router] | None = None
        for arrays in batches:
            rows = dict(zip(names, arrays, strict=True))
            wanted = rows[ERROR_HEADER].is_valid()
            if wanted.true_count:
                letters = dead_letters({name: array.filter(wanted) for name, array in rows.items()})
                if connected is None:
                    connected = Producer(cluster, options), Router(cluster, options.topic)
                producer, router = connected
                for part, area in router.areas(letters):
                    producer.add(part, area)
                producer.flush()
            yield pa.array(np.zeros(len(arrays[0]), bool))


def dead_letters(rows: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Rows as the sink takes them: the record as it was, with headers that say what is wrong."""
    import pyarrow as pa

    entry = pa.struct([("key", pa.string()), ("value", pa.binary())])
    added = {name: rows[name].to_pylist() for name in rows if name.startswith(HEADER_PREFIX)}
    count = len(rows[ERROR_HEADER])
    before = rows["headers"].to_pylist() if "headers" in rows else [None] * count
    headers = [
        [*(before[nth] or ()), *({"key": name, "value": _bytes(texts[nth])} for name, texts in added.items())]
        for nth in range(count)
    ]
    columns = {name: rows[name] for name in ("key", "value") if name in rows}
    columns["headers"] = pa.array(headers, pa.list_(entry))
    return pa.RecordBatch.from_pydict(columns)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
