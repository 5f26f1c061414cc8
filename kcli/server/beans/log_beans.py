"""The beans of the log directories and of the logs."""

from __future__ import annotations

from kcli.server.beans.bean import Bean, Kind, bean, gauge, gauges
from kcli.server.beans.sources import LOG, SERVER, Beans, BeanSources
from kcli.server.metrics.meters import Attributes
from kcli.storage.log.log import PartitionLog


def log_beans(sources: BeanSources) -> Beans:
    yield from _directories(sources)
    yield _flushes(sources)
    yield _moves(sources)
    for log in list(sources.logs.logs.values()):
        yield _of_log(log)
    for copy in list(sources.logs.futures.logs.values()):
        yield _of_log(copy, {"is-future": "true"})


def _directories(sources: BeanSources) -> Beans:
    directories = sources.logs.directories
    offline = sum(directory.error is not None for directory in directories)
    yield gauge(LOG, "LogManager", "OfflineLogDirectoryCount", offline)
    for directory in directories:
        is_offline = int(directory.error is not None)
        yield gauge(LOG, "LogManager", "LogDirectoryOffline", is_offline, logDirectory=directory.path)


def _moves(sources: BeanSources) -> Bean:
    """The largest lag, in records, of the partitions that are being copied to another log directory."""
    logs, lag = sources.logs, 0
    for key, copy in list(logs.futures.logs.items()):
        current = logs.get(key.topic, key.partition)
        if current is not None:
            lag = max(lag, current.log_end_offset - copy.log_end_offset)
    return gauge(SERVER, "ReplicaAlterLogDirsManager", "MaxLag", lag, clientId="ReplicaAlterLogDirs")


def _flushes(sources: BeanSources) -> Bean:
    """The number and the durations of flushes, in milliseconds."""
    watched = sources.metrics.watches.values(sources.logs.flushes_ms, sources.now)
    attributes = watched.meter.attributes("calls", sources.now) | watched.histogram.attributes()
    attributes["LatencyUnit"] = "MILLISECONDS"
    return bean(LOG, "LogFlushStats", attributes, "LogFlushRateAndTimeMs", kind=Kind.TIMER)


def _of_log(log: PartitionLog, labels: dict[str, str] | None = None) -> Bean:
    tags = {"topic": log.topic, "partition": str(log.partition), **(labels or {})}
    values: Attributes = {
        "LogEndOffset": log.log_end_offset,
        "LogStartOffset": log.log_start_offset,
        "NumLogSegments": len(log.segments),
        "Size": log.size_bytes,
    }
    return gauges(LOG, "Log", values, **tags)
