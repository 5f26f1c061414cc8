"""Registers `format("kcli")`: Spark registers the DefaultSource of every module whose name begins with `pyspark_`."""

from __future__ import annotations

from kcli.spark.data_source import KcliDataSource as DefaultSource

__all__ = ["DefaultSource"]
