"""The row of share groups (KIP-932)."""

from __future__ import annotations

from kcli.coordinator.group.unserved import unserved_row
from kcli.protocol.records import share_groups as records

SHARE = unserved_row(
    "share",
    keys=(
        records.ShareGroupMemberMetadataKey,
        records.ShareGroupMetadataKey,
        records.ShareGroupTargetAssignmentMetadataKey,
        records.ShareGroupTargetAssignmentMemberKey,
        records.ShareGroupCurrentMemberAssignmentKey,
        records.ShareGroupStatePartitionMetadataKey,
    ),
    member_key=records.ShareGroupMemberMetadataKey,
    state_of=lambda _: "Stable",
)
