"""What a Python worker loads and keeps: looked at in its own process, since this one has everything loaded."""

from __future__ import annotations

import subprocess
import sys

DECODE = """
import sys
import pyarrow as pa
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.batch_headers import read_headers
from kcli.spark.source.arrow import record_batches
from kcli.spark.client.cluster import TopicPartition
from kcli.spark.source.fetcher import Fetched
from kcli.spark.source.offsets import OffsetRange

schema = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
records = [
    Record(timestamp_ms=7, key=None, value=b"a", headers=(("h", b"1"),)),
    Record(timestamp_ms=8, key=b"k", value=None),
]
raw = encode_batch(records, base_offset=0)
wanted = OffsetRange(TopicPartition("é", 3), 0, 2)
[batch] = record_batches(iter([Fetched(read_headers(raw, "é-3"), 0, None)]), wanted, schema)
assert "pandas" not in sys.modules
batch.validate(full=True)
assert [value.as_py() for value in batch.column("topic")] == ["é", "é"]
assert [value.as_py() for value in batch.column("key")] == [None, b"k"]
assert [value.as_py() for value in batch.column("headers")] == [[{"key": "h", "value": b"1"}], None]
assert batch.column("timestamp").cast(pa.int64()).to_numpy().tolist() == [7000, 8000]
"""

FREEZE = """
import gc
from kcli.spark.worker_memory import freeze_imports
assert gc.get_freeze_count() == 0
freeze_imports()
first = gc.get_freeze_count()
assert first > 1000, first
kept = [[] for _ in range(1000)]
freeze_imports()
assert gc.get_freeze_count() <= first  # only once: what comes later is for the collector
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_decoding_does_not_import_pandas() -> None:
    run(DECODE)


def test_imports_are_frozen_once() -> None:
    run(FREEZE)
