"""The task of a Spark connector: it starts the job, looks after it, and reads the offsets in its checkpoint."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from kcli.config.definition import ConfigValue
from kcli.connectors.interface import Config, JobProgress, JobTask, Offset, Partition
from kcli.formats.connect.errors import ConnectException
from kcli.formats.spark_checkpoints import Checkpoint, NoCheckpoint, read_checkpoints
from kcli.model.topic_partition import TopicPartition
from kcli.spark.connectors.keys import EXPORT, INGEST, RUN_INTERVAL, STOP_TIMEOUT, TRANSFORM, job_keys
from kcli.spark.connectors.process import JobProcess

_log = logging.getLogger("kcli.spark.connectors")

SPARK_SUBMIT = (sys.executable, "-P", "-m", "kcli", "spark-submit")
_FILE_SCHEME = "file:"


class SparkTask(JobTask):
    """Runs one job. `launcher` is the program with the syntax of `kcli spark-submit`."""

    job: ClassVar[str]

    def __init__(self, launcher: Sequence[str] = SPARK_SUBMIT) -> None:
        self._launcher = launcher
        self._process: JobProcess | None = None
        self._files: tempfile.TemporaryDirectory[str] | None = None
        self._checkpoint: str | None = None
        self._next_run: float | None = None
        """The time at which the job runs again. None while it runs."""

    def start(self, config: Config) -> None:
        from kcli.spark.connectors.command import prepare_command

        values = job_keys(self.job).parse(config)
        self._run_interval_s = _seconds(values[RUN_INTERVAL])
        self._stop_timeout_s = _seconds(values[STOP_TIMEOUT])
        self._files = tempfile.TemporaryDirectory(prefix="kcli-connect-spark-")
        command = prepare_command(self.job, config, self.context.client, Path(self._files.name))
        self._command = [*self._launcher, *command.words]
        self._checkpoint = _local(command.checkpoint)
        self._topics = [config[f"{INGEST}.topic"]] if self.job == INGEST else []
        self._run()

    def _run(self) -> None:
        assert self._files is not None, "start has made it"
        self._next_run = None
        self._process = JobProcess(self._command, self._files.name)

    def check(self) -> None:
        if self._next_run is not None:
            if time.monotonic() >= self._next_run:
                self._run()
            return
        assert self._process is not None, "the task has started"
        code = self._process.exit_code()
        if code is None:
            return
        if code != 0:
            raise ConnectException(
                f"The Spark job has ended with exit code {code}. The end of its log:\n{self._process.tail()}"
            )
        again = f"runs again in {self._run_interval_s:.0f} s" if self._run_interval_s >= 0 else "is done"
        _log.info("The Spark job has ended without an error, and %s", again)
        interval_s = self._run_interval_s if self._run_interval_s >= 0 else float("inf")
        self._next_run = time.monotonic() + interval_s

    def progress(self) -> JobProgress:
        """The end offsets of the last micro-batch that Spark has committed in the checkpoint."""
        if self._checkpoint is None:
            return JobProgress(topics=self._topics)
        try:
            queries = read_checkpoints(self._checkpoint)
        except NoCheckpoint:  # before the first micro-batch
            queries = []
        offsets = {place: offset for query in queries for place, offset in query.offsets.items()}
        topics = [*self._topics, *sorted({place.topic for place in offsets})]
        if self.job in (EXPORT, TRANSFORM):
            return JobProgress(topic_offsets=offsets, topics=topics)
        return JobProgress([pair for query in queries for pair in source_offsets(query)], topics=topics)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop(self._stop_timeout_s)
        if self._files is not None:
            self._files.cleanup()
            self._files = None


def source_offsets(query: Checkpoint) -> list[tuple[Partition, Offset]]:
    """The offsets of a query in the form of a source connector.

    A partition is a partition of a topic, or the number of a source of another kind. Each also names the query.
    """
    pairs: list[tuple[Partition, Offset]] = [
        (_partition(query, place), {"kafka_offset": offset})
        for place, offset in sorted(query.offsets.items())
    ]
    for number, text in enumerate(query.other_sources):
        pairs.append(({"query": query.name, "source": number}, _offset(text)))
    return pairs


def _partition(query: Checkpoint, place: TopicPartition) -> Partition:
    return {"query": query.name, "kafka_topic": place.topic, "kafka_partition": place.partition}


def _offset(text: str) -> Offset:
    """An offset as the source has written it: its fields if they are primitive, or else its text."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if isinstance(fields, dict) and not any(isinstance(value, dict | list) for value in fields.values()):
        return fields
    return {"offset": text}


def _local(checkpoint: str | None) -> str | None:
    """The path of a checkpoint that this process can read."""
    if checkpoint is None:
        return None
    if checkpoint.startswith(_FILE_SCHEME):
        return "/" + checkpoint.removeprefix(_FILE_SCHEME).lstrip("/")
    if "://" in checkpoint:
        _log.warning("No offsets are reported, because the checkpoint %s is not in a directory", checkpoint)
        return None
    return checkpoint


def _seconds(milliseconds: ConfigValue) -> float:
    assert isinstance(milliseconds, int)
    return milliseconds / 1000
