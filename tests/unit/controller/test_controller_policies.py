"""Policies of operators: which requests they see, which they refuse, and how they are found."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kcli.config.definition import ConfigError
from kcli.config.start_up import node_config
from kcli.controller.api import CREATE_TOPICS, INCREMENTAL_ALTER_CONFIGS
from kcli.controller.policies import (
    ALTER_CONFIG_GROUP,
    ALTER_CONFIG_KEY,
    CREATE_TOPIC_GROUP,
    CREATE_TOPIC_KEY,
    ConfigsToAlter,
    Policies,
    TopicToCreate,
    configured_policies,
)
from kcli.errors import PolicyViolationException
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.security.acls.configured import GROUP, KEY, node_authorizer
from rigs.controller import ControllerRig

CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/a",
}


class Rules:
    """A policy for both kinds of requests. Names must begin with `ok`."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self.properties = dict(properties or {})
        self.seen: list[Any] = []

    def validate(self, request: TopicToCreate | ConfigsToAlter) -> None:
        self.seen.append(request)
        name = request.name if isinstance(request, TopicToCreate) else request.resource_name
        if name == "bug":
            raise ZeroDivisionError("not for clients")
        if not name.startswith("ok"):
            raise PolicyViolationException(f"{name} does not begin with ok")


def rig_with(rules: Rules) -> ControllerRig:
    rig = ControllerRig(policies=Policies(create_topic=rules, alter_config=rules))
    rig.add_brokers(1, 2)
    return rig


def create(rig: ControllerRig, *topics: ct.CreatableTopic, validate_only: bool = False) -> dict[str, Any]:
    request = ct.CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=validate_only)
    response = rig.obey(rig.decide(CREATE_TOPICS, request))
    return {each.name: (each.error_code.name, each.error_message) for each in response.topics}


def test_a_policy_refuses_a_topic_and_the_others_are_created() -> None:
    rules = Rules()
    rig = rig_with(rules)
    config = ct.CreatableTopicConfig(name="retention.ms", value="1000")
    found = create(
        rig,
        ct.CreatableTopic(name="ok-1", num_partitions=3, replication_factor=2, configs=(config,)),
        ct.CreatableTopic(name="bad", num_partitions=1, replication_factor=1),
        ct.CreatableTopic(name="bug", num_partitions=1, replication_factor=1),
    )
    assert found == {
        "ok-1": ("NONE", None),
        "bad": ("POLICY_VIOLATION", "bad does not begin with ok"),
        "bug": ("UNKNOWN_SERVER_ERROR", "The policy failed: ZeroDivisionError"),
    }
    assert rules.seen[:2] == [
        ConfigsToAlter("TOPIC", "ok-1", {"retention.ms": "1000"}),
        TopicToCreate("ok-1", 3, 2, None, {"retention.ms": "1000"}),
    ]
    assert [topic.name for topic in rig.image.topics] == ["ok-1"]


def test_a_policy_sees_defaults_and_chosen_replicas_and_dry_runs() -> None:
    rules = Rules()
    rig = rig_with(rules)
    assignment = ct.CreatableReplicaAssignment(partition_index=0, broker_ids=(2, 1))
    create(
        rig,
        ct.CreatableTopic(name="ok-1", num_partitions=-1, replication_factor=-1),
        ct.CreatableTopic(name="ok-2", num_partitions=-1, replication_factor=-1, assignments=(assignment,)),
        validate_only=True,
    )
    assert rules.seen == [
        TopicToCreate("ok-1", 1, 1, None, {}),
        TopicToCreate("ok-2", None, None, {0: (2, 1)}, {}),
    ]


def test_a_policy_refuses_a_change_of_a_configuration() -> None:
    rules = Rules()
    rig = rig_with(rules)
    create(rig, ct.CreatableTopic(name="ok-1", num_partitions=1, replication_factor=1))
    rules.seen.clear()

    def alter(resource_type: int, name: str, key: str, value: str | None) -> tuple[str, str | None]:
        config = ic.AlterableConfig(name=key, config_operation=0 if value else 1, value=value)
        resource = ic.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=(config,))
        request = ic.IncrementalAlterConfigsRequest(resources=(resource,))
        (answer,) = rig.obey(rig.decide(INCREMENTAL_ALTER_CONFIGS, request)).responses
        return answer.error_code.name, answer.error_message

    assert alter(2, "ok-1", "retention.ms", "5")[0] == "NONE"
    assert alter(2, "ok-1", "retention.ms", None)[0] == "NONE"
    assert alter(4, "1", "log.retention.ms", "5") == ("POLICY_VIOLATION", "1 does not begin with ok")
    assert rules.seen == [
        ConfigsToAlter("TOPIC", "ok-1", {"retention.ms": "5"}),
        ConfigsToAlter("TOPIC", "ok-1", {"retention.ms": None}),
        ConfigsToAlter("BROKER", "1", {"log.retention.ms": "5"}),
    ]


class Refuses:
    def __init__(self, properties: Mapping[str, str]) -> None:
        raise ValueError(f"rules.file is {properties.get('rules.file')}")


class Guard:
    """An authorizer that allows everything to one user."""

    is_open = False

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.user = properties["guard.user"]

    def authorize(
        self, asker: Any, operation: Any, resource: Any, *, audit: Any = None, count: int = 1
    ) -> bool:
        return bool(asker.principal.name == self.user)

    def authorize_any(self, asker: Any, operation: Any, resource_type: Any) -> bool:
        return bool(asker.principal.name == self.user)


class Waits:
    """A policy and an authorizer with coroutine functions."""

    is_open = False

    def __init__(self, _properties: Mapping[str, str]) -> None:
        pass

    async def validate(self, _request: Any) -> None:
        pass

    async def authorize(self, *_: Any, **_more: Any) -> bool:
        return False

    async def authorize_any(self, *_: Any) -> bool:
        return False


class Method(Guard):
    """An authorizer with a method in place of a property."""

    def is_open(self) -> bool:  # type: ignore[override]
        return False


class Careless(Guard):
    """An authorizer and a policy with results that are true, and are not True."""

    is_open: Any = 1

    def authorize(self, *_: Any, **_more: Any) -> Any:
        return "refused"

    def authorize_any(self, *_: Any) -> Any:
        return "refused"

    def validate(self, _request: Any) -> Any:
        return False


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with entry points, as if it were installed."""
    module = ModuleType("operators_rules")
    module.__dict__.update(Rules=Rules, Refuses=Refuses, Guard=Guard, number=5)
    module.__dict__.update(Waits=Waits, Method=Method)
    monkeypatch.setitem(sys.modules, "operators_rules", module)
    found = EntryPoints(
        EntryPoint(name, f"operators_rules:{attribute}", group)
        for group in (CREATE_TOPIC_GROUP, ALTER_CONFIG_GROUP, GROUP)
        for name, attribute in (
            ("com.example.Rules", "Rules"),
            ("com.example.Refuses", "Refuses"),
            ("com.example.Guard", "Guard"),
            ("com.example.Waits", "Waits"),
            ("com.example.Method", "Method"),
            ("com.example.Gone", "Gone"),
            ("com.example.Number", "number"),
        )
    )
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found.select(group=group))


def test_the_configuration_names_the_entry_points() -> None:
    config = node_config(
        CONTROLLER | {CREATE_TOPIC_KEY: "com.example.Rules", ALTER_CONFIG_KEY: "com.example.Rules"}
    )
    policies = configured_policies(config)
    assert isinstance(policies.create_topic, Rules)
    assert policies.create_topic.properties["node.id"] == "1"
    assert isinstance(policies.alter_config, Rules)
    assert configured_policies(node_config(CONTROLLER)) == Policies()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("com.example.Absent", "no installed package has the entry point com.example.Absent"),
        ("com.example.Refuses", "does not accept the configuration: rules.file is None"),
        ("com.example.Gone", "cannot be imported"),
        ("com.example.Number", "is not a class"),
        ("com.example.Guard", "does not accept the configuration: .guard.user."),
        ("com.example.Waits", "has validate as a coroutine function"),
    ],
)
def test_a_class_that_cannot_be_used_stops_the_start(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        configured_policies(node_config(CONTROLLER | {CREATE_TOPIC_KEY: name}))
    assert error.value.key == CREATE_TOPIC_KEY


def test_an_authorizer_of_another_package_decides() -> None:
    from kcli.model.acl import AclOperation
    from kcli.security.authorizer import CLUSTER, Asker
    from kcli.security.principal import Principal

    authorizer = node_authorizer(node_config(CONTROLLER | {KEY: "com.example.Guard", "guard.user": "alice"}))
    for user, allowed in (("alice", True), ("bob", False)):
        asker = Asker(Principal("User", user), "10.0.0.1", "Produce")
        assert authorizer.authorize(asker, AclOperation.ALTER, CLUSTER) == allowed
    with pytest.raises(ConfigError, match="has no is_open and no authorize and no authorize_any"):
        node_authorizer(node_config(CONTROLLER | {KEY: "com.example.Rules"}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("com.example.Waits", "has authorize as a coroutine function; expected def"),
        ("com.example.Method", "has is_open without a truth value; expected a property"),
    ],
)
def test_an_authorizer_that_would_allow_everything_stops_the_start(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        node_authorizer(node_config(CONTROLLER | {KEY: name, "guard.user": "alice"}))


def test_only_true_gives_a_right() -> None:
    from kcli.model.acl import AclOperation, ResourceType
    from kcli.model.pace import at_once, no_pause
    from kcli.security.authorizer import Asker
    from kcli.security.principal import Principal
    from kcli.server.requests.rights import Need, Rights

    asker = Asker(Principal("User", "bob"), "10.0.0.1", "Produce")
    rights = Rights(Careless({"guard.user": "alice"}), asker)
    need = Need(AclOperation.WRITE, ResourceType.TOPIC)
    assert not rights.is_open
    assert not rights.allows(need, "t") and not rights.allows_some(need)
    assert at_once(rights.checked(need, ["t"], no_pause)) == set()
    assert rights.operations(ResourceType.TOPIC, "t") == 0


def test_a_policy_that_returns_a_result_refuses() -> None:
    rig = ControllerRig(policies=Policies(create_topic=Careless({"guard.user": "alice"})))
    rig.add_brokers(1)
    found = create(rig, ct.CreatableTopic(name="t", num_partitions=1, replication_factor=1))
    assert found == {"t": ("UNKNOWN_SERVER_ERROR", "The policy failed: it returned bool")}


def test_the_classes_of_the_documentation_work() -> None:
    from kcli.model.acl import AclOperation
    from kcli.security.authorizer import CLUSTER, Asker, Authorizer
    from kcli.security.principal import Principal

    text = (Path(__file__).resolve().parents[3] / "docs" / "security.md").read_text()
    section = text.partition("## Authorizers and policies of your own")[2]
    made: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(block, made)
    rig = ControllerRig(policies=Policies(create_topic=made["TopicRules"]({"our.rules.replicas": "2"})))
    rig.add_brokers(1, 2)
    found = create(
        rig,
        ct.CreatableTopic(name="few", num_partitions=1, replication_factor=1),
        ct.CreatableTopic(name="enough", num_partitions=1, replication_factor=2),
    )
    assert found == {
        "few": ("POLICY_VIOLATION", "few needs 2 replicas"),
        "enough": ("NONE", None),
    }
    guard: Authorizer = made["Guard"]({"our.guard.admin": "root"})
    for user, operation, allowed in (
        ("root", AclOperation.ALTER, True),
        ("bob", AclOperation.ALTER, False),
        ("bob", AclOperation.DESCRIBE, True),
    ):
        assert guard.authorize(Asker(Principal("User", user), "10.0.0.1", "X"), operation, CLUSTER) == allowed
