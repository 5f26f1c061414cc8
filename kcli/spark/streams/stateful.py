"""A Python function with state for each key, on Spark's transformWithState."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kcli.spark.streams.record import KEY, TIMESTAMP, VALUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

State = dict[str, Any]
StateFunction = Callable[[Any, list[Any], State | None], tuple[Iterable[tuple[Any, ...]], State | None]]


def process(frame: DataFrame, function: StateFunction, state: str, output: str) -> DataFrame:
    """Rows of key, value (a struct of `output`) and timestamp (the newest of the key's in the micro-batch)."""
    from pyspark.sql.types import StructField, StructType, TimestampType

    state_schema, value_schema = StructType.fromDDL(state), StructType.fromDDL(output)
    schema = StructType(
        [
            frame.schema[KEY],
            StructField(VALUE, value_schema),
            StructField(TIMESTAMP, TimestampType()),
        ]
    )
    return (
        frame.where(frame[KEY].isNotNull())
        .groupBy(KEY)
        .transformWithState(
            statefulProcessor=_processor(function, state_schema),
            outputStructType=schema,
            outputMode="append",
            timeMode="none",
        )
    )


def _processor(function: StateFunction, state_schema: Any) -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Processor(StatefulProcessor):
        """Calls the function with what Spark keeps for the key."""

        def init(self, handle: Any) -> None:
            self._state = handle.getValueState("state", state_schema)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            ordered = sorted(rows, key=lambda row: row[TIMESTAMP])
            before = self._state.get() if self._state.exists() else None
            known = None if before is None else dict(zip(state_schema.names, before, strict=True))
            sent, after = function(key[0], [row[VALUE] for row in ordered], known)
            if after is None:
                self._state.clear()
            else:
                self._state.update(tuple(after[name] for name in state_schema.names))
            for each in sent:
                yield Row(key=key[0], value=tuple(each), timestamp=ordered[-1][TIMESTAMP])

        def close(self) -> None:
            """Nothing is open."""

    return Processor()
