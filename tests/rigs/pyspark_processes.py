"""Which of PySpark's processes may be killed in a test."""

from __future__ import annotations

# How the command line of a daemon whose children run tasks ends: Spark starts those again. The children of other
# daemons look sources up and plan: a session that loses one of these at the wrong moment never finds its sources.
TASK_DAEMON = b"pyspark.daemon\0pyspark.worker\0"
