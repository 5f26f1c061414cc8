"""The operations of Kafka Streams over Spark Structured Streaming: streams and tables, from topics to topics.

    from kcli.spark.streams import Streams, Text

    app = Streams(spark, "word-count", bootstrap_servers="localhost:9092", checkpoint="/var/lib/word-count")
    words = app.stream("lines", value=Text()).flat_map_values(lambda r: F.split(F.lower(r.value), r"\\W+"))
    words.select_key(lambda r: r.value).group_by_key().count().to_table("counts")
    app.run()

A function gets a `Record` of Spark columns and returns a column, so Spark's own operators do the work. Only
`Stream.process` and joins with tables run Python code. docs/streams.md lists all operations.
"""

from __future__ import annotations

from kcli.spark.streams.app import Streams
from kcli.spark.streams.record import Record
from kcli.spark.streams.serdes import Binary, Json, Long, Serde, Text
from kcli.spark.streams.stream import Grouped, Stream, Table, Windowed
from kcli.spark.streams.windows import Hopping, Session, Tumbling, Window

__all__ = [
    "Binary",
    "Grouped",
    "Hopping",
    "Json",
    "Long",
    "Record",
    "Serde",
    "Session",
    "Stream",
    "Streams",
    "Table",
    "Text",
    "Tumbling",
    "Window",
    "Windowed",
]
