"""The sink connector: each task writes the records of its partitions in transactions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from kcli.config.definition import ConfigError
from kcli.connectors.interface import Config, SinkConnector, SinkTask
from kcli.connectors.jdbc.database import Database, SqlException
from kcli.connectors.jdbc.sink_keys import RECORD_KEY, SINK_KEYS, SinkSettings
from kcli.connectors.jdbc.source_validation import connection_errors
from kcli.connectors.jdbc.target_tables import TableAlterOrCreateException
from kcli.connectors.jdbc.writing import Writer
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.errors import ConnectException, RetriableException
from kcli.model.topic_partition import TopicPartition

_log = logging.getLogger("kcli.connectors.jdbc")


class JdbcSinkTask(SinkTask):
    """Writes records to tables."""

    java_class = "io.confluent.connect.jdbc.sink.JdbcSinkTask"

    _writer: Writer | None = None

    def start(self, config: Config) -> None:
        self._settings = settings = SinkSettings.of(config)
        self._remaining_retries = settings.max_retries
        self._writer = Writer(Database(settings.connection, trim_errors=settings.trims_errors), settings)

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        assert self._writer is not None, "the worker has started the task"
        reporter = self.context.errant_record_reporter
        try:
            self._writer.write(records)
        except TableAlterOrCreateException:
            if reporter is None:
                raise
            self._write_one_by_one(records)
        except SqlException as error:
            _log.warning(
                "Write of %d records failed, remainingRetries=%d: %s",
                len(records),
                self._remaining_retries,
                error,
            )
            self._writer.close()
            chain = f"java.sql.SQLException: Exception chain:\njava.sql.SQLException: {error}\n"
            if self._remaining_retries > 0:
                self._remaining_retries -= 1
                self.context.timeout(self._settings.backoff_ms)
                raise RetriableException(chain) from error
            if reporter is None:
                raise ConnectException(chain) from error
            self._write_one_by_one(records)
        self._remaining_retries = self._settings.max_retries

    def stop(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _write_one_by_one(self, records: Sequence[SinkRecord]) -> None:
        """Writes each record in a transaction of its own, and reports those that the database refuses."""
        reporter, writer = self.context.errant_record_reporter, self._writer
        assert reporter is not None and writer is not None, "`put` has checked it"
        _log.warning("Retrying write operation for %d records.", len(records))
        for record in records:
            try:
                writer.write([record])
            except (TableAlterOrCreateException, SqlException) as error:
                reporter.report(record, error)
                writer.close()


class JdbcSinkConnector(SinkConnector):
    """Writes the records of topics to tables."""

    java_class = "io.confluent.connect.jdbc.JdbcSinkConnector"
    config_def = SINK_KEYS
    task_class = JdbcSinkTask

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        try:
            values = SINK_KEYS.parse(config)
        except ConfigError:
            return {}
        if values["delete.enabled"] and str(values["pk.mode"]).lower() != RECORD_KEY:
            text = ["Deletes are only supported for pk.mode record_key"]
            return {"pk.mode": text, "delete.enabled": text}
        return connection_errors(SinkSettings.of(config).connection)

    def alter_offsets(self, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        return True
