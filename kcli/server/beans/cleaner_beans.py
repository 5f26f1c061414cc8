"""The beans of the log cleaner."""

from __future__ import annotations

from collections import Counter

from kcli.server.beans.bean import gauge, meter
from kcli.server.beans.sources import LOG, UTILS, Beans, BeanSources
from kcli.server.partitions.log_cleaning import LogCleaning


def cleaner_beans(sources: BeanSources) -> Beans:
    if sources.broker is None:
        return
    cleaning = sources.broker.cleaning
    yield from _manager(sources, cleaning)
    yield from _passes(sources, cleaning)


def _manager(sources: BeanSources, cleaning: LogCleaning) -> Beans:
    count: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for log in cleaning.uncleanable():
        count[log.directory.path] += 1
        size[log.directory.path] += log.size_bytes
    for directory in sources.logs.directories:
        labels = {"logDirectory": directory.path}
        yield gauge(LOG, "LogCleanerManager", "uncleanable-partitions-count", count[directory.path], **labels)
        yield gauge(LOG, "LogCleanerManager", "uncleanable-bytes", size[directory.path], **labels)
    since = sources.clock.now_ms() - cleaning.last_run_ms if cleaning.last_run_ms else 0
    yield gauge(LOG, "LogCleanerManager", "time-since-last-run-ms", since)
    yield gauge(LOG, "LogCleanerManager", "max-dirty-percent", int(100 * cleaning.dirtiest.dirty_ratio))


def _passes(sources: BeanSources, cleaning: LogCleaning) -> Beans:
    last, dirtiest = cleaning.last_result, cleaning.dirtiest
    recopy_percent = (
        100 * last.bytes_after // last.bytes_before if last is not None and last.bytes_before else 0
    )
    for name, value in (
        ("cleaner-recopy-percent", recopy_percent),
        ("max-buffer-utilization-percent", 0 if last is None else int(100 * last.buffer_use)),
        ("max-clean-time-secs", int(cleaning.last_pass_seconds)),
        ("max-compaction-delay-secs", dirtiest.overdue_ms // 1000),
        ("DeadThreadCount", int(cleaning.is_dead)),
    ):
        yield gauge(LOG, "LogCleaner", name, value)
    counts = cleaning.counts
    watched = sources.metrics.watches.counts(counts)
    yield meter(UTILS, "Throttler", "cleaner-io", watched.meter(counts, "io_bytes", "bytes", sources.now))
