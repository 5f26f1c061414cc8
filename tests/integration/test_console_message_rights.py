"""The rights of a session's user decide which records a page shows, follows, sends and deletes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from kcli.client.admin.admin import AdminClient
from kcli.client.config import ClientConfig
from kcli.console.settings import ClusterSettings
from kcli.metadata.image import AclEntry
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.model.addresses import Address
from rigs.console import Browser, browser, console
from rigs.console_topics import create, produce, record
from rigs.node import running
from rigs.sasl import SASL_LISTENER

API = "/api/clusters/main/topics/t"
BOB = {"username": "bob", "password": "bob-secret", "mechanism": "PLAIN", "cluster": "main"}
RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def right(operation: AclOperation) -> AclEntry:
    """Gives bob a right for the topic `t`."""
    return AclEntry(
        resource_type=ResourceType.TOPIC,
        resource_name="t",
        pattern_type=PatternType.LITERAL,
        principal="User:bob",
        host="*",
        operation=operation,
        permission_type=AclPermissionType.ALLOW,
    )


async def first_event(page: Browser, path: str, name: str) -> dict:
    """The data of the first event with this name."""
    async with page.http.get(f"{page.address}{API}{path}") as answer:
        while True:
            line = (await answer.content.readline()).decode()
            assert line, f"the stream ended without {name}"
            if line == f"event: {name}\n":
                found: dict = json.loads((await answer.content.readline()).removeprefix(b"data: "))
                return found


async def refused(page: Browser, action: str, body: dict) -> str:
    """The error of an action that must fail."""
    found = await page.post(f"{API}/messages/{action}", body)
    assert page.status == 403, found
    return str(found["error"])


def test_a_user_reads_and_changes_only_with_the_rights_of_the_cluster(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, **SASL_LISTENER, **RIGHTS) as node:
            owner = AdminClient(ClientConfig(servers=(Address("127.0.0.1", node.port()),)))
            await create(owner, "t")
            await produce(owner, "t", [record(1)])
            properties = {
                "bootstrap.servers": f"127.0.0.1:{node.port('SASL')}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
            }
            async with (
                console(ClusterSettings(name="main", properties=properties)) as address,
                browser(address) as page,
            ):
                await page.open()
                assert (await page.get(f"{API}/messages/record?offset=0"))["error"] == "LOGIN_NEEDED"
                await page.post("/api/session/login", BOB)
                for path in ("/messages", "/messages/tail", "/analysis"):
                    found = await first_event(page, path, "error")
                    assert found["error"] in ("TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION")

                await owner.create_acls([right(AclOperation.DESCRIBE)])
                assert (await first_event(page, "/messages", "error"))[
                    "error"
                ] == "TOPIC_AUTHORIZATION_FAILED"
                assert await refused(page, "send", {"value": None}) == "TOPIC_AUTHORIZATION_FAILED"
                assert await refused(page, "delete", {"before": {"0": "1"}}) == "TOPIC_AUTHORIZATION_FAILED"

                await owner.create_acls([right(AclOperation.READ)])
                rows = (await first_event(page, "/messages", "message"))["rows"]
                assert [row["key"]["text"] for row in rows] == ["k1"]
                assert await refused(page, "send", {"value": None}) == "TOPIC_AUTHORIZATION_FAILED"
            await owner.close()

    asyncio.run(run())
