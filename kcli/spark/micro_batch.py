"""The names under which a task finds its query and its micro-batch."""

from __future__ import annotations

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties that Spark sets for the tasks of a stream. The id of a query is stored in its checkpoint."""
