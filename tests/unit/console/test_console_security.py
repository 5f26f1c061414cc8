"""The ACLs and the users with passwords on the console: lists, additions, removals, and their command lines."""

from __future__ import annotations

import asyncio
from typing import Any

from kcli.errors import ErrorCode
from kcli.metadata.image import AclEntry
from kcli.model.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kcli.protocol.messages import alter_user_scram_credentials as alter_users
from kcli.protocol.messages import create_acls, delete_acls, describe_acls
from kcli.protocol.messages import describe_user_scram_credentials as describe_users
from kcli.protocol.wire.api import ApiKey
from rigs.console import Browser, scripted
from rigs.scripted_cluster import ScriptedCluster

ACLS = "/api/clusters/main/acls"
USERS = "/api/clusters/main/users"
READ_ORDERS = AclEntry(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
PASSWORD = "hush-hush"


class SecuredCluster(ScriptedCluster):
    """A scripted cluster with ACLs and users."""

    def __init__(self) -> None:
        super().__init__()
        self.acls = [READ_ORDERS]
        self.users = {"alice": {2: 8192}}
        self.server.script = {
            **self.server.script,
            ApiKey.DESCRIBE_ACLS: self.describe_acls,
            ApiKey.CREATE_ACLS: self.create_acls,
            ApiKey.DELETE_ACLS: self.delete_acls,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self.describe_users,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self.alter_users,
        }

    def describe_acls(self, request: Any, _version: int) -> describe_acls.DescribeAclsResponse:
        acls = [acl for acl in self.acls if request.principal_filter in (None, acl.principal)]
        return describe_acls.DescribeAclsResponse(
            resources=tuple(
                describe_acls.DescribeAclsResource(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    pattern_type=acl.pattern_type,
                    acls=(
                        describe_acls.AclDescription(
                            principal=acl.principal,
                            host=acl.host,
                            operation=acl.operation,
                            permission_type=acl.permission_type,
                        ),
                    ),
                )
                for acl in acls
                if request.operation in (AclOperation.ANY, acl.operation)
            )
        )

    def create_acls(self, request: Any, _version: int) -> create_acls.CreateAclsResponse:
        results = []
        for creation in request.creations:
            self.acls.append(
                AclEntry(
                    creation.resource_type,
                    creation.resource_name,
                    creation.resource_pattern_type,
                    creation.principal,
                    creation.host,
                    creation.operation,
                    creation.permission_type,
                )
            )
            results.append(create_acls.AclCreationResult())
        return create_acls.CreateAclsResponse(results=tuple(results))

    def delete_acls(self, request: Any, _version: int) -> delete_acls.DeleteAclsResponse:
        (acl_filter,) = request.filters
        gone = [acl for acl in self.acls if acl.principal == acl_filter.principal_filter]
        self.acls = [acl for acl in self.acls if acl not in gone]
        matching = tuple(delete_acls.DeleteAclsMatchingAcl(principal=acl.principal) for acl in gone)
        return delete_acls.DeleteAclsResponse(
            filter_results=(delete_acls.DeleteAclsFilterResult(matching_acls=matching),)
        )

    def describe_users(self, request: Any, _version: int) -> Any:
        names = [user.name for user in request.users or ()] or list(self.users)
        return describe_users.DescribeUserScramCredentialsResponse(
            results=tuple(
                describe_users.DescribeUserScramCredentialsResult(
                    user=name,
                    error_code=ErrorCode.NONE if name in self.users else ErrorCode.RESOURCE_NOT_FOUND,
                    credential_infos=tuple(
                        describe_users.CredentialInfo(mechanism=number, iterations=iterations)
                        for number, iterations in self.users.get(name, {}).items()
                    ),
                )
                for name in names
            )
        )

    def alter_users(self, request: Any, _version: int) -> Any:
        for upsertion in request.upsertions:
            self.users.setdefault(upsertion.name, {})[upsertion.mechanism] = upsertion.iterations
        for deletion in request.deletions:
            del self.users[deletion.name][deletion.mechanism]
        names = [upsertion.name for upsertion in (*request.upsertions, *request.deletions)]
        return alter_users.AlterUserScramCredentialsResponse(
            results=tuple(alter_users.AlterUserScramCredentialsResult(user=name) for name in names)
        )


def words(outcome: dict[str, Any]) -> str:
    """The command line without the options of the connection."""
    tool, _, rest = outcome["command"].removeprefix("kcli ").partition(" --bootstrap-server ")
    return f"{tool} {rest.partition(' ')[2]}"


async def add(browser: Browser, body: dict[str, Any]) -> dict[str, Any]:
    """Previews an addition, does it, and compares both."""
    preview = await browser.post(ACLS, {**body, "preview": True})
    assert browser.status == 200, preview
    outcome = await browser.post(ACLS, body)
    assert browser.status == 200, outcome
    assert outcome["command"] == preview["command"]
    answer: dict[str, Any] = preview
    return answer


def test_the_acls_are_listed_with_names() -> None:
    async def story() -> None:
        async with scripted(SecuredCluster()) as browser:
            answer = await browser.get(f"{ACLS}?search=alice%20orders")
            assert answer["rows"] == [
                {
                    "principal": "User:alice",
                    "permission": "ALLOW",
                    "operation": "READ",
                    "resource_type": "TOPIC",
                    "name": "orders",
                    "pattern": "LITERAL",
                    "host": "*",
                }
            ]
            assert (await browser.get(f"{ACLS}?search=bob"))["total"] == 0

    asyncio.run(story())


def test_a_preview_of_acls_says_what_exists_and_adds_nothing() -> None:
    async def story() -> None:
        cluster = SecuredCluster()
        async with scripted(cluster) as browser:
            body = {"principal": "User:alice", "use": "consumer", "name": "orders", "group": "billing"}
            preview = await browser.post(ACLS, {**body, "preview": True})
            assert preview["summary"] == "Adds 2 ACLs. 1 ACL existed before."
            assert len(cluster.acls) == 1
            outcome = await browser.post(ACLS, body)
            assert outcome["summary"] == "Added 2 ACLs. 1 ACL existed before."
            assert words(outcome) == (
                "acls --add --allow-principal User:alice --consumer --topic orders --group billing"
            )

    asyncio.run(story())


def test_the_command_of_acls_has_all_options() -> None:
    async def story() -> None:
        async with scripted(SecuredCluster()) as browser:
            outcome = await add(browser, {"principal": "User:bob", "use": "producer", "name": "orders"})
            assert words(outcome) == "acls --add --allow-principal User:bob --producer --topic orders"
            outcome = await add(
                browser,
                {
                    "principal": "User:bob",
                    "permission": "DENY",
                    "host": "10.0.0.1",
                    "resource_type": "TRANSACTIONAL_ID",
                    "name": "a b",
                    "pattern": "PREFIXED",
                    "operations": ["WRITE", "DESCRIBE"],
                },
            )
            assert words(outcome) == (
                "acls --add --deny-principal User:bob --deny-host 10.0.0.1 --operation Write --operation Describe "
                "--transactional-id 'a b' --resource-pattern-type prefixed"
            )
            outcome = await add(
                browser,
                {"principal": "User:bob", "resource_type": "CLUSTER", "operations": ["ALTER_CONFIGS"]},
            )
            assert (
                words(outcome) == "acls --add --allow-principal User:bob --operation AlterConfigs --cluster"
            )

    asyncio.run(story())


def test_acls_that_make_no_sense_are_refused() -> None:
    async def story() -> None:
        cluster = SecuredCluster()
        async with scripted(cluster) as browser:
            good = {"principal": "User:a", "resource_type": "TOPIC", "name": "t", "operations": ["READ"]}
            for change in (
                {"principal": "alice"},
                {"principal": ""},
                {"name": ""},
                {"name": "x" * 1001},
                {"operations": []},
                {"operations": ["FLY"]},
                {"resource_type": "ANY"},
                {"pattern": "MATCH"},
                {"permission": "MAYBE"},
                {"use": "consumer"},
            ):
                await browser.post(ACLS, {**good, **change})
                assert browser.status == 400, change
        assert len(cluster.acls) == 1

    asyncio.run(story())


def test_an_acl_is_removed() -> None:
    async def story() -> None:
        cluster = SecuredCluster()
        async with scripted(cluster) as browser:
            (row,) = (await browser.get(ACLS))["rows"]
            preview = await browser.post(f"{ACLS}/remove", {**row, "preview": True})
            assert (preview["summary"], len(cluster.acls)) == ("Removes 1 ACL.", 1)
            assert words(preview) == (
                "acls --remove --allow-principal User:alice --operation Read --topic orders --force"
            )
            outcome = await browser.post(f"{ACLS}/remove", row)
            assert (outcome["summary"], cluster.acls) == ("Removed 1 ACL.", [])

    asyncio.run(story())


def test_users_are_listed_with_the_number_of_their_acls() -> None:
    async def story() -> None:
        async with scripted(SecuredCluster()) as browser:
            assert (await browser.get(USERS))["rows"] == [
                {"name": "alice", "mechanisms": {"SCRAM-SHA-512": 8192}, "acls": 1, "error": None}
            ]

    asyncio.run(story())


def test_a_password_is_set_and_never_shown() -> None:
    async def story() -> None:
        cluster = SecuredCluster()
        async with scripted(cluster) as browser:
            body = {"name": "bob", "mechanism": "SCRAM-SHA-256", "password": PASSWORD, "iterations": 4096}
            preview = await browser.post(USERS, {**body, "preview": True})
            assert "bob" not in cluster.users
            assert preview["summary"] == "Adds the SCRAM-SHA-256 credential of user bob."
            assert words(preview) == (
                "configs --alter --entity-type users --entity-name bob --add-config "
                "'SCRAM-SHA-256=[iterations=4096,password=PASSWORD]'"
            )
            outcome = await browser.post(USERS, body)
            assert cluster.users["bob"] == {1: 4096}
            assert PASSWORD not in str(preview) + str(outcome)
            again = await browser.post(USERS, {**body, "preview": True})
            assert again["summary"] == "Replaces the SCRAM-SHA-256 credential of user bob."
        sent = cluster.server.sent(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
        assert PASSWORD not in str(sent)

    asyncio.run(story())


def test_a_password_that_the_cluster_would_refuse_is_refused() -> None:
    async def story() -> None:
        async with scripted(SecuredCluster()) as browser:
            good = {"name": "bob", "mechanism": "SCRAM-SHA-256", "password": PASSWORD}
            for change in (
                {"name": " "},
                {"mechanism": "PLAIN"},
                {"password": ""},
                {"password": "x" * 1001},
                {"iterations": 4095},
                {"iterations": 16385},
            ):
                await browser.post(USERS, {**good, **change})
                assert browser.status == 400, change

    asyncio.run(story())


def test_the_last_credential_of_a_user_is_removed_with_a_warning() -> None:
    async def story() -> None:
        cluster = SecuredCluster()
        async with scripted(cluster) as browser:
            body = {"name": "alice", "mechanism": "SCRAM-SHA-512"}
            preview = await browser.post(f"{USERS}/remove", {**body, "preview": True})
            assert "cannot log in" in preview["summary"]
            assert cluster.users["alice"]
            await browser.post(f"{USERS}/remove", body)
            assert not cluster.users["alice"]
            await browser.post(f"{USERS}/remove", body)
            assert browser.status == 400

    asyncio.run(story())


def test_a_read_only_console_changes_nothing() -> None:
    async def story() -> None:
        cluster = SecuredCluster()
        async with scripted(cluster, is_read_only=True) as browser:
            (row,) = (await browser.get(ACLS))["rows"]
            await browser.post(f"{ACLS}/remove", row)
            assert browser.status == 403
        assert cluster.acls == [READ_ORDERS]

    asyncio.run(story())
