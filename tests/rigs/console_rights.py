"""A scripted cluster whose users may do some operations on the cluster itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcli.model.acl import AclOperation
from kcli.protocol.messages.describe_cluster import DescribeClusterResponse
from rigs.scripted_cluster import ScriptedCluster

EVERYTHING = frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS})


class RightsCluster(ScriptedCluster):
    """A cluster whose users may do some operations on the cluster itself."""

    def __init__(self, operations: frozenset[AclOperation]) -> None:
        super().__init__()
        self.operations = operations

    def cluster(self, request: Any, version: int) -> DescribeClusterResponse:
        bits = sum(1 << operation for operation in self.operations)
        return replace(super().cluster(request, version), cluster_authorized_operations=bits)
