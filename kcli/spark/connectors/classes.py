"""The Spark connectors: each has one task, which runs one job with spark-submit.

A worker imports this module when it starts, so this module does not import the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from kcli.connectors.interface import Config, Offset, Partition, SinkConnector, SourceConnector
from kcli.model.topic_partition import TopicPartition
from kcli.spark.connectors.keys import EXPORT, FILE_JOB, INGEST, TRANSFORM, JobKeys
from kcli.spark.connectors.task import SparkTask

_OFFSETS = (
    "The offsets of a Spark job are in its checkpoint. Use another checkpoint to read from other offsets."
)


class IngestTask(SparkTask):
    job = INGEST


class ExportTask(SparkTask):
    job = EXPORT


class TransformTask(SparkTask):
    job = TRANSFORM


class FileTask(SparkTask):
    job = FILE_JOB


class _Source(SourceConnector):
    """A connector whose job reads other systems than Kafka, or anything."""

    job: ClassVar[str]

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [self.config]

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        from kcli.spark.connectors.checks import errors_of

        return errors_of(self.job, config)

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition | None, Offset | None]]
    ) -> bool:
        raise NotImplementedError(_OFFSETS)


class _Sink(SinkConnector):
    """A connector whose job reads topics."""

    job: ClassVar[str]

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [self.config]

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        from kcli.spark.connectors.checks import errors_of

        return errors_of(self.job, config)

    def alter_offsets(self, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        raise NotImplementedError(_OFFSETS)


class SparkIngest(_Source):
    """Writes files, or the rows of a database, to a topic, with the job `ingest`."""

    java_class = "kcli.SparkIngest"
    job = INGEST
    config_def = JobKeys(INGEST)
    task_class = IngestTask

    def exactly_once_support(self, config: Config) -> bool | None:
        """The job writes each micro-batch in a transaction, unless its option at-least-once is set."""
        return config.get(f"{INGEST}.at.least.once", "false").lower() != "true"


class SparkJob(_Source):
    """Runs a program of the user."""

    java_class = "kcli.SparkJob"
    job = FILE_JOB
    config_def = JobKeys(FILE_JOB)
    task_class = FileTask


class SparkExport(_Sink):
    """Writes topics to files or tables, with the job `export`."""

    java_class = "kcli.SparkExport"
    job = EXPORT
    config_def = JobKeys(EXPORT)
    task_class = ExportTask


class SparkTransform(_Sink):
    """Writes the rows of a SQL query over topics to a topic, with the job `transform`."""

    java_class = "kcli.SparkTransform"
    job = TRANSFORM
    config_def = JobKeys(TRANSFORM)
    task_class = TransformTask
