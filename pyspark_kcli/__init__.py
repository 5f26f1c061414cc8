"""Makes `format("kcli")` work unasked: Spark registers the DefaultSource of every `pyspark_*` module it finds."""

from __future__ import annotations

from kcli.spark.data_source import KcliDataSource as DefaultSource

__all__ = ["DefaultSource"]
