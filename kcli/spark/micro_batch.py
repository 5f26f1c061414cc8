"""The names of the local properties from which a task reads the ids of its query and its micro-batch."""

from __future__ import annotations

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties that Spark sets for the tasks of a stream: QUERY_ID and BATCH_ID. The id of a query is stored in its
checkpoint."""
