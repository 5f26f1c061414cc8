"""Calls a Python function for each key, with Spark's transformWithState. A state of each key is kept between the
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from kcli.spark.streams.record import KEY, TIMESTAMP, VALUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
    from pyspark.sql.streaming.stateful_processor import TimerValues
    from pyspark.sql.types import StructType

Key = TypeVar("Key")
Value = TypeVar("Value")
Field = TypeVar("Field")
Sent = TypeVar("Sent")

StateFunction = Callable[
    [Key, list[Value], dict[str, Field] | None],
    tuple[Iterable[tuple[Sent, ...] | None], dict[str, Field] | None],
]
"""The type of the user's function. It gets a key, the values and the state of the key. It returns the values to send,
and the new state."""

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "RocksDBStateStoreProvider"
"""The only state store that transformWithState supports."""


def process(
    frame: DataFrame, function: StateFunction[Key, Value, Field, Sent], state: str, output: str
) -> DataFrame:
    """Calls `function` for each key in each micro-batch, and returns a frame with its results. The value is a struct of
    `output`. The timestamp is the newest timestamp of the key in the micro-batch."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    if not (provider := frame.sparkSession.conf.get(PROVIDER, "") or "").endswith(ROCKSDB):
        raise ValueError(
            f"process needs {PROVIDER} = …{ROCKSDB}, not {provider!r}: start with kcli spark-submit, which sets it"
        )
    state_schema, value_schema = StructType.fromDDL(state), StructType.fromDDL(output)
    schema = StructType([frame.schema[KEY], StructField(VALUE, value_schema), frame.schema[TIMESTAMP]])
    return (
        frame.where(F.col(KEY).isNotNull())
        .groupBy(KEY)
        .transformWithState(
            statefulProcessor=_processor(function, state_schema.names, value_schema.names, state_schema),
            outputStructType=schema,
            outputMode="append",
            timeMode="none",
        )
    )


def _processor(
    function: StateFunction[Key, Value, Field, Sent],
    state_fields: list[str],
    value_fields: list[str],
    state_schema: StructType,
) -> StatefulProcessor:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Processor(StatefulProcessor):
        """Calls the function with the state of each key, and stores the new state."""

        def init(self, handle: StatefulProcessorHandle) -> None:
            self._state = handle.getValueState("state", state_schema)

        def handleInputRows(
            self, key: tuple[Key], rows: Iterator[Row], timerValues: TimerValues
        ) -> Iterator[Row]:
            ordered = sorted(rows, key=lambda row: row[TIMESTAMP])
            before = self._state.get() if self._state.exists() else None
            known = None if before is None else dict(zip(state_fields, before, strict=True))
            sent, after = function(key[0], [row[VALUE] for row in ordered], known)
            if after is not None:
                self._state.update(state_row(after, state_fields))
            elif before is not None:
                self._state.clear()
            for result in sent:
                value = None if result is None else value_row(result, value_fields)
                yield Row(key=key[0], value=value, timestamp=ordered[-1][TIMESTAMP])

        def close(self) -> None:
            """Does nothing, because the processor opens no resources."""

    return Processor()


def state_row(state: dict[str, Field], fields: list[str]) -> tuple[Field, ...]:
    """Returns the values of the state in the order of `fields`. Raises TypeError if a field is missing or unknown."""
    if not isinstance(state, dict) or set(state) != set(fields):
        raise TypeError(
            f"the function of process returned the state {state!r}: expected a dict of {', '.join(fields)}, or None"
        )
    return tuple(state[name] for name in fields)


def value_row(value: tuple[Sent, ...], fields: list[str]) -> tuple[Sent, ...]:
    """Returns the value as a tuple. Raises TypeError if it is not a tuple or list with one element for each field."""
    if not isinstance(value, (tuple, list)) or len(value) != len(fields):
        raise TypeError(
            f"the function of process returned the value {value!r}: expected a tuple of {', '.join(fields)}, or None"
        )
    return tuple(value)
