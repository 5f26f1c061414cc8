"""The beans of the metadata that a node has loaded, and of its snapshots."""

from __future__ import annotations

from kcli.config.features import METADATA_VERSION
from kcli.server.beans.bean import bean, gauge, histogram
from kcli.server.beans.controller_beans import applied_lag_ms, ignores_static_voters
from kcli.server.beans.sources import SERVER, Beans, BeanSources


def metadata_beans(sources: BeanSources) -> Beans:
    loader, image = sources.loader, sources.metadata
    for name, value in (
        ("CurrentMetadataVersion", image.features.get(METADATA_VERSION, 0)),
        ("CurrentControllerId", sources.quorum.leader_id),
        ("HandleLoadSnapshotCount", loader.snapshot_count),
    ):
        yield gauge(SERVER, "MetadataLoader", name, value)
    snapshots = sources.raft.snapshotting
    yield gauge(SERVER, "SnapshotEmitter", "LatestSnapshotGeneratedBytes", snapshots.latest_bytes)
    yield gauge(SERVER, "SnapshotEmitter", "LatestSnapshotGeneratedAgeMs", snapshots.latest_age_ms)
    if sources.broker is not None:
        yield from _of_broker(sources)


def _of_broker(sources: BeanSources) -> Beans:
    loader, image = sources.loader, sources.metadata
    yield bean(
        SERVER,
        "broker-metadata-metrics",
        {
            "last-applied-record-offset": image.offset,
            "last-applied-record-timestamp": image.timestamp_ms,
            "last-applied-record-lag-ms": applied_lag_ms(sources),
            "metadata-apply-error-count": loader.apply_errors,
            "ignored-static-voters": int(ignores_static_voters(sources)),
        },
    )
    for name, observed in (
        ("MetadataBatchProcessingTimeUs", loader.times.batch_us),
        ("MetadataBatchSizes", loader.times.batch_records),
    ):
        attributes = sources.metrics.watches.values(observed, sources.now).histogram.attributes()
        yield histogram(SERVER, "BrokerMetadataListener", name, attributes)
