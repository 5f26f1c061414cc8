"""Handles records that do not parse, for all jobs.

A job adds to each row an error (null for a good row) and columns that identify its origin. `sifted` returns the good
rows. The option --on-bad-record selects what happens with a bad row: the job fails, the row is only counted, or the row
is sent to a dead-letter topic. The worker that finds a bad row sends the row before the micro-batch is committed. If
Spark repeats the task or the micro-batch, the row is sent again, so each dead letter is sent at least once. Dead
letters have the header names of Kafka Connect (KIP-298).
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
"""The columns that identify the origin of a record."""


@dataclass(frozen=True, slots=True)
class BadInput:
    """The user's policy for bad records. `sink` contains the options of the sink that writes to the dead-letter
    topic.
    """

    policy: str = FAIL
    sink: Mapping[str, str] | None = None

    @property
    def needs_headers(self) -> bool:
        """Whether headers must be read, because a dead letter keeps the headers of its record."""
        return self.policy == DEAD_LETTER


@dataclass(frozen=True, kw_only=True)
class BadInputOptions(JobOptions):
    """The options of a job that parses its input."""

    on_bad_record: str = option(
        'What the job does with a record that does not parse. With "fail", the job fails. With "drop", the job leaves '
        'the record out, and reports the number of these records. With "dead-letter", the job writes the record to '
        "--dead-letter-topic.",
        choices=(FAIL, DROP, DEAD_LETTER),
        default=FAIL,
    )
    dead_letter_topic: str | None = option(
        f"With --on-bad-record {DEAD_LETTER}: the topic for records that do not parse. The headers of each record in "
        "this topic contain the error and the origin of the record (such as topic, partition and offset).",
        metavar="NAME",
    )


def bad_input(options: BadInputOptions) -> BadInput:
    """Returns the policy for bad records. Raises JobError if the options contradict each other."""
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
    """Returns the rows of `frame` whose `error` is null.

    The policy of `chosen` decides what happens to the other rows. `origin` maps names to the columns that identify the
    origin of a row.

    A dead letter keeps `key`, `value` and `headers` of the row, if the row has these columns.
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
    # Good rows pass only nulls to the Python function, because their content is not needed there.
    return frame.where(~bad | send(*(when(bad, column) for column in columns))).drop("_error")


def _sender(sink: dict[str, str], names: tuple[str, ...]) -> Callable[..., Column]:
    """Returns a Spark function that sends the rows whose error is not null to the dead-letter topic.

    The function returns false for every row.
    """
    from pyspark.sql.functions import arrow_udf

    def send(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        yield from send_dead_letters(batches, sink, names)

    import pyarrow as pa

    # PySpark finds the kind of the function by its annotations. So the annotations must be types, not strings.
    send.__annotations__ = {"batches": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    return arrow_udf(send, "boolean").asNondeterministic()


def send_dead_letters(
    batches: Iterator[tuple[pa.Array, ...]], sink: dict[str, str], names: tuple[str, ...]
) -> Iterator[pa.Array]:
    """Sends dead letters. Runs in an executor.

    `names` are the names of the arrays: `key`, `value`, `headers`, or the name of a header to add.
    """
    import numpy as np
    import pyarrow as pa

    from kcli.spark.sink.producer import Producer
    from kcli.spark.sink.rows import Router

    options = sink_options(sink)
    with Cluster(options.client) as cluster:
        connected: tuple[Producer, Router] | None = None
        for arrays in batches:
            rows = dict(zip(names, arrays, strict=True))
            is_failed = rows[ERROR_HEADER].is_valid()
            if is_failed.true_count:
                letters = dead_letters({name: array.filter(is_failed) for name, array in rows.items()})
                if connected is None:
                    connected = Producer(cluster, options), Router(cluster, options.topic)
                producer, router = connected
                for part, area in router.areas(letters):
                    producer.add(part, area)
                producer.flush()
            yield pa.array(np.zeros(len(arrays[0]), bool))


def dead_letters(rows: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Returns the bad records as rows for the sink, each with additional headers about its error and origin."""
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
