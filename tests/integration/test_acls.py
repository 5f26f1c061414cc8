"""ACLs in a whole node: the authorizer decides over the metadata, on the listeners of broker and controller."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcli.errors import ErrorCode
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.protocol.messages.describe_acls import DescribeAclsRequest
from kcli.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kcli.protocol.wire.api import ApiKey
from kcli.security.acls.configured import STANDARD
from rigs.node import connect, running
from rigs.wire_client import Client

SECURED = {"authorizer_class_name": STANDARD}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ErrorCode.NONE),
        (SECURED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (SECURED | {"super_users": "User:ANONYMOUS"}, ErrorCode.NONE),
    ],
)
def test_the_authorizer_of_the_configuration_decides_on_every_listener(
    tmp_path: Path, settings: dict[str, str], expected: ErrorCode
) -> None:
    async def main() -> list[ErrorCode]:
        async with running(tmp_path, **settings) as node:
            found = []
            for listener in ("PLAINTEXT", "CONTROLLER"):
                client = await connect(node, listener)
                request = ListPartitionReassignmentsRequest(topics=None)
                answer = await client.call(request, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
                found.append(answer.error_code)
            return found

    assert asyncio.run(main()) == [expected, expected]


def test_everyone_passes_if_resources_without_acls_are_open(tmp_path: Path) -> None:
    async def main() -> ErrorCode:
        settings = {"allow_everyone_if_no_acl_found": "true"}
        async with running(tmp_path, **SECURED, **settings) as node:
            client = await connect(node)
            request = ListPartitionReassignmentsRequest(topics=None)
            answer = await client.call(request, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
            code: ErrorCode = answer.error_code
            return code

    assert asyncio.run(main()) is ErrorCode.NONE


def topic_acl(name: str = "t", operation: int = 3, principal: str = "User:a") -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name=name,
        resource_pattern_type=3,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=3,
    )


ALL_ACLS = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)
EVERY_ACL = DeleteAclsFilter(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


async def described(client: Client) -> list[tuple[str, int]]:
    answer = await client.call(ALL_ACLS, ApiKey.DESCRIBE_ACLS, 3)
    assert answer.error_code is ErrorCode.NONE
    return sorted((each.resource_name, len(each.acls)) for each in answer.resources)


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_acls_are_added_listed_removed_and_survive_a_restart(tmp_path: Path, listener: str) -> None:
    settings = SECURED | {"super_users": "User:ANONYMOUS"}

    async def main() -> None:
        async with running(tmp_path, **settings) as node:
            client = await connect(node, listener)
            request = CreateAclsRequest(creations=(topic_acl(), topic_acl(operation=4), topic_acl("u")))
            answer = await client.call(request, ApiKey.CREATE_ACLS, 3)
            assert [each.error_code for each in answer.results] == [ErrorCode.NONE] * 3
            assert await described(client) == [("t", 2), ("u", 1)]
        async with running(tmp_path, **settings) as node:
            client = await connect(node, listener)
            assert await described(client) == [("t", 2), ("u", 1)]
            answer = await client.call(DeleteAclsRequest(filters=(EVERY_ACL,)), ApiKey.DELETE_ACLS, 3)
            assert len(answer.filter_results[0].matching_acls) == 3
            assert await described(client) == []

    asyncio.run(main())


def test_an_acl_holds_from_the_next_request_after_its_answer(tmp_path: Path) -> None:
    """The super user is on the controller listener: ANONYMOUS loses its own right by the ACL that it adds."""

    async def main() -> None:
        settings = SECURED | {"allow_everyone_if_no_acl_found": "true"}
        async with running(tmp_path, **settings) as node:
            client = await connect(node)
            lists = ListPartitionReassignmentsRequest(topics=None)
            answer = await client.call(lists, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
            assert answer.error_code is ErrorCode.NONE
            other = AclCreation(
                resource_type=4,
                resource_name="kafka-cluster",
                principal="User:admin",
                host="*",
                operation=2,
                permission_type=3,
            )
            request = CreateAclsRequest(creations=(other,))
            created = await client.call(request, ApiKey.CREATE_ACLS, 3)
            assert created.results[0].error_code is ErrorCode.NONE
            answer = await client.call(lists, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
            assert answer.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            created = await client.call(request, ApiKey.CREATE_ACLS, 3)
            assert created.results[0].error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    asyncio.run(main())


def test_unknown_elements_close_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, **SECURED, super_users="User:ANONYMOUS") as node:
            for request, key in (
                (CreateAclsRequest(creations=(topic_acl(operation=0),)), ApiKey.CREATE_ACLS),
                (DeleteAclsRequest(filters=(DeleteAclsFilter(),)), ApiKey.DELETE_ACLS),
                (DescribeAclsRequest(), ApiKey.DESCRIBE_ACLS),
            ):
                client = await connect(node)
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await client.call(request, key, 3)

    asyncio.run(main())
