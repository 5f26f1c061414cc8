"""The first records of a cluster. `kcli storage format` writes these records to files, and the first active controller
appends them to the log.

`format` writes two files in the form of snapshots. `bootstrap.checkpoint` has the feature levels and SCRAM credentials.
The snapshot 0-0 has the first voters, for a quorum that keeps its voters in the log (KIP-853).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kcli.config.features import KRAFT_VERSION
from kcli.controller.configs import MIN_INSYNC_REPLICAS, elr_enabled
from kcli.metadata.image import METADATA_VERSION, MetadataImage
from kcli.metadata.snapshot_file import decode_snapshot, encode_snapshot
from kcli.model.configs import CLUSTER_DEFAULT
from kcli.model.ids import FIRST_LEADER_EPOCH
from kcli.protocol.batches.control import VotersRecord
from kcli.protocol.records.metadata import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    UserScramCredentialRecord,
    decode_metadata_record,
    encode_metadata_record,
    write_version_for,
)

BOOTSTRAP_FILE = "bootstrap.checkpoint"
# The first level of metadata.version with metadata transactions (3.6-IV1, KIP-868).
METADATA_TRANSACTIONS_SINCE = 13
DEFAULT_MIN_INSYNC_REPLICAS = "1"


def bootstrap_records(
    features: Mapping[str, int], scram: Iterable[UserScramCredentialRecord] = ()
) -> list[MetadataRecord]:
    """The bootstrap records: first metadata.version, then the other features above level 0 sorted by name, then
    credentials.

    kraft.version is not among these records, because a control record of the log contains it.
    """
    names = [name for name in sorted(features) if name not in (METADATA_VERSION, KRAFT_VERSION)]
    return [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=features[METADATA_VERSION]),
        *(
            FeatureLevelRecord(name=name, feature_level=features[name])
            for name in names
            if features[name] > 0
        ),
        *scram,
    ]


def encode_bootstrap(records: Iterable[MetadataRecord], now_ms: int) -> bytes:
    """The content of bootstrap.checkpoint."""
    values = [encode_metadata_record(record, 0) for record in records]
    return b"".join(
        encode_snapshot(values, epoch=FIRST_LEADER_EPOCH, last_contained_log_timestamp_ms=0, now_ms=now_ms)
    )


def decode_bootstrap(content: bytes, name: str = BOOTSTRAP_FILE) -> list[MetadataRecord]:
    """Reads bootstrap.checkpoint. Raises CorruptRecordError if the file is damaged."""
    snapshot = decode_snapshot(content, name)
    return [decode_metadata_record(value)[0] for values in snapshot.batches for value in values]


def encode_voters_snapshot(voters: VotersRecord, kraft_version: int, now_ms: int) -> bytes:
    """The content of the snapshot 0-0 that `format --standalone` writes to `__cluster_metadata-0`."""
    batches = encode_snapshot(
        (),
        epoch=FIRST_LEADER_EPOCH,
        last_contained_log_timestamp_ms=now_ms,
        now_ms=now_ms,
        kraft_version=kraft_version,
        voters=voters,
    )
    return b"".join(batches)


def first_log_records(
    bootstrap: Sequence[MetadataRecord], static_config: Mapping[str, str]
) -> list[MetadataRecord]:
    """The records that the first active controller appends first: the bootstrap records in a metadata transaction.

    If ELR is enabled, the controller's own min.insync.replicas becomes the default of the cluster (KIP-966).
    """
    levels = {
        record.name: record.feature_level for record in bootstrap if isinstance(record, FeatureLevelRecord)
    }
    records = [*bootstrap]
    image = MetadataImage(features=levels)
    if elr_enabled(image):
        records.append(
            ConfigRecord(
                resource_type=int(CLUSTER_DEFAULT.type),
                resource_name=CLUSTER_DEFAULT.name,
                name=MIN_INSYNC_REPLICAS,
                value=static_config.get(MIN_INSYNC_REPLICAS, DEFAULT_MIN_INSYNC_REPLICAS),
            )
        )
    if image.metadata_version < METADATA_TRANSACTIONS_SINCE:
        return records
    return [BeginTransactionRecord(name="Bootstrap records"), *records, EndTransactionRecord()]


def encode_records(records: Iterable[MetadataRecord], metadata_version: int) -> list[bytes]:
    """The encoded records. This level of metadata.version decides in which version each record is written."""
    return [encode_metadata_record(record, write_version_for(record, metadata_version)) for record in records]
