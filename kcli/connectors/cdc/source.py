"""The source connector: it captures the changes of a PostgreSQL database with one task."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence

from kcli.config.definition import ConfigError
from kcli.connectors.cdc.capture import Capture
from kcli.connectors.cdc.connection import Connection, DatabaseError, Stopped
from kcli.connectors.cdc.foreign_keys import keys_without_effect, refused_keys
from kcli.connectors.cdc.keys import KEYS
from kcli.connectors.cdc.pgoutput import ProtocolError
from kcli.connectors.cdc.positions import Position
from kcli.connectors.cdc.preparation import check_server
from kcli.connectors.cdc.settings import Settings
from kcli.connectors.interface import Config, Offset, Partition, SourceConnector, SourceTask
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.errors import ConnectException, RetriableException

_log = logging.getLogger("kcli.connectors.cdc")
_STOP_S = 10.0
"""How long `stop` waits for a poll to end."""
_CONFIRM_S = 1.0
"""The shortest time between two questions for the stored offset, because a worker may commit at every poll."""


class PostgresConnectorTask(SourceTask):
    """Reads a snapshot and the stream of changes."""

    java_class = "io.debezium.connector.postgresql.PostgresConnectorTask"

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._busy = threading.Lock()
        self._capture: Capture | None = None
        self._failures = 0
        self._next_confirmation = 0.0

    def start(self, config: Config) -> None:
        self._settings = settings = Settings.of(config)
        for key, reason in keys_without_effect(config).items():
            _log.warning("%s has no effect: %s", key, reason)
        try:
            self._capture = Capture(settings, self._stored_offset(), self._stopping)
            self._capture.connect()
        except ValueError as error:
            raise ConnectException(f"The stored offset is invalid: {error}") from error
        except DatabaseError as error:
            raise ConnectException(f"Cannot connect to PostgreSQL: {error}") from error
        threading.Thread(target=self._keep_alive, name="cdc-keep-alive", daemon=True).start()

    def poll(self) -> Sequence[SourceRecord] | None:
        capture = self._capture
        assert capture is not None, "the worker has started the task"
        with self._busy:
            if self._stopping.is_set():
                return None
            try:
                records = capture.read()
            except Stopped:
                return None
            except ProtocolError as error:
                raise ConnectException(f"PostgreSQL has sent an invalid message: {error}") from error
            except DatabaseError as error:
                capture.close()
                raise self._failure(error) from error
            self._failures = 0
            return records or None

    def commit(self) -> None:
        """The stored offset tells which records are in their topics. So only this offset moves the slot."""
        capture = self._capture
        if capture is None or time.monotonic() < self._next_confirmation:
            return
        self._next_confirmation = time.monotonic() + _CONFIRM_S
        stored = self._stored_offset()
        with self._busy:
            try:
                capture.confirm(stored)
            except DatabaseError as error:
                _log.warning("The position is reported later: %s", error)

    def stop(self) -> None:
        self._stopping.set()
        capture = self._capture
        if capture is None:
            return
        if not self._busy.acquire(timeout=_STOP_S):
            _log.warning("PostgreSQL did not answer in time, so the connections remain open until it does")
            return
        try:
            capture.close()
            if self._settings.values["slot.drop.on.stop"]:
                capture.drop_slot()
        except DatabaseError as error:
            _log.warning("The slot is not removed: %s", error)
        finally:
            self._busy.release()

    def _stored_offset(self) -> Offset | None:
        return self.context.offsets.offset(self._settings.events.partition)

    def _failure(self, error: DatabaseError) -> ConnectException:
        """Waits, and returns the error of a poll. The worker polls again after a RetriableException."""
        if not error.transient:
            return ConnectException(f"PostgreSQL reports: {error}")
        settings = self._settings
        retries_max = settings.number("slot.max.retries" if error.slot_in_use else "errors.max.retries")
        pause_s = settings.seconds(
            "slot.retry.delay.ms" if error.slot_in_use else "retriable.restart.connector.wait.ms"
        )
        self._failures += 1
        if 0 <= retries_max < self._failures:
            return ConnectException(f"PostgreSQL reports after {retries_max} retries: {error}")
        self._stopping.wait(pause_s)
        return RetriableException(f"The connection to PostgreSQL is lost, and begins again: {error}")

    def _keep_alive(self) -> None:
        """Reports positions while the worker does not poll, because the server ends a silent connection."""
        while not self._stopping.wait(self._settings.seconds("status.update.interval.ms")):
            with self._busy:
                if self._capture is None or self._stopping.is_set():
                    return
                try:
                    self._capture.report()
                except DatabaseError as error:
                    _log.warning("The position is reported later: %s", error)


class PostgresConnector(SourceConnector):
    """Captures the changes of a PostgreSQL database."""

    java_class = "io.debezium.connector.postgresql.PostgresConnector"
    config_def = KEYS
    task_class = PostgresConnectorTask

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """One task, because a slot has one reader."""
        return [self.config]

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        errors = refused_keys(config)
        if errors:
            return errors
        try:
            KEYS.parse(config)
        except ConfigError:
            return {}  # the worker reports the errors of single keys
        try:
            settings = Settings.of(config)
        except ConfigError as error:
            return {error.key or "topic.prefix": [str(error)]}
        return _connection_errors(settings)

    def exactly_once_support(self, config: Config) -> bool | None:
        """An offset is the exact place in the stream. Only a snapshot begins again if it is interrupted."""
        return True

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition | None, Offset | None]]
    ) -> bool:
        for partition, offset in offsets:
            if offset is None:
                continue
            if partition is None:
                raise ConnectException("Partition objects cannot be null")
            if list(partition) != ["server"]:
                raise ConnectException(
                    f'Source partition {dict(partition)}: expected {{"server":topic.prefix}}'
                )
            try:
                Position.of(offset)
            except ValueError as error:
                raise ConnectException(f"Source offset {dict(offset)}: {error}") from error
        return True


def _connection_errors(settings: Settings) -> dict[str, list[str]]:
    try:
        connection = Connection(settings.connection, threading.Event())
    except DatabaseError as error:
        return {"database.hostname": [f"Cannot connect to PostgreSQL: {error}"]}
    try:
        check_server(connection)
    except (ConnectException, DatabaseError) as error:
        return {"database.hostname": [str(error)]}
    finally:
        connection.close()
    return {}
