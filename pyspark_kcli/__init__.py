"""Registers `format("kcli")`: Spark registers the DefaultSource of every `pyspark_*` module."""

from __future__ import annotations

from kcli.spark.data_source import KcliDataSource as DefaultSource

__all__ = ["DefaultSource"]
