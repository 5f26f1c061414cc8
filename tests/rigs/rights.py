"""A node with ACLs and the user alice, who has the rights that a test gives her."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from kcli.errors import ErrorCode
from kcli.model.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.protocol.wire.api import ApiKey
from kcli.security.acls.configured import STANDARD
from rigs.loops import until
from rigs.node import RunningNode, connect, running
from rigs.sasl import ALICE, PLAIN_MODULE, SASL_LISTENER, log_in
from rigs.wire_client import Client

SECURED = SASL_LISTENER | {
    "authorizer.class.name": STANDARD,
    "super.users": "User:ANONYMOUS",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": PLAIN_MODULE,
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@dataclass(frozen=True, slots=True)
class Secured:
    """A node, a client that may do everything, and alice's client."""

    node: RunningNode
    admin: Client
    alice: Client

    async def allow(
        self,
        operation: AclOperation,
        kind: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        pattern: PatternType = PatternType.LITERAL,
        permission: AclPermissionType = AclPermissionType.ALLOW,
    ) -> None:
        """Gives alice a right, or takes it with a denial. Waits until the node knows it."""
        before = len(self.node.metadata.acls)
        creation = AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=pattern,
            principal="User:alice",
            host="*",
            operation=operation,
            permission_type=permission,
        )
        response = await self.admin.call(CreateAclsRequest(creations=(creation,)), ApiKey.CREATE_ACLS, 3)
        assert [result.error_code for result in response.results] == [ErrorCode.NONE]
        await until(lambda: len(self.node.metadata.acls) == before + 1)

    async def take_all(self) -> None:
        """Takes every right from alice."""
        every = DeleteAclsFilter(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermissionType.ANY,
        )
        await self.admin.call(DeleteAclsRequest(filters=(every,)), ApiKey.DELETE_ACLS, 3)
        await until(lambda: not self.node.metadata.acls)

    async def at_controller(self) -> Client:
        """Alice's client of the controller's listener."""
        client = await connect(self.node, "CONTROLLER")
        await log_in(client, ALICE)
        return client


@contextlib.asynccontextmanager
async def secured(directory: Path) -> AsyncIterator[Secured]:
    """A node with ACLs that serves, until the block ends. Only its administrator has rights."""
    async with running(directory, **SECURED) as node:
        alice = await connect(node, "SASL")
        await log_in(alice, ALICE)
        yield Secured(node, await connect(node), alice)
