"""ACLs in a whole node: the authorizer decides over the metadata, on the listeners of broker and controller."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcli.errors import ErrorCode
from kcli.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kcli.protocol.wire.api import ApiKey
from kcli.security.acls.configured import STANDARD
from rigs.node import connect, running

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
