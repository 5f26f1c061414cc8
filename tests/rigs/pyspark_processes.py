"""The process of PySpark that a test may kill."""

from __future__ import annotations

# The end of the command line of the daemon whose children run tasks. Spark starts these children again. The children of
# other daemons plan sources. If a session loses such a child at the wrong moment, it never finds its sources.
TASK_DAEMON = b"pyspark.daemon\0pyspark.worker\0"
