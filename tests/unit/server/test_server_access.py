"""What each API asks for: every served API has a rule, the rules are Kafka's, and refusals reach the client."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from kcli.errors import ClusterAuthorizationException, ErrorCode
from kcli.model.acl import AclOperation, ResourceType
from kcli.model.pace import at_once, no_pause
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from kcli.security.authorizer import ALLOW_ALL, CLUSTER, Asker, Audit, Authorizer, Resource
from kcli.security.principal import Principal, Session
from kcli.server.requests import access, guard
from kcli.server.requests.access import OPEN, Access
from kcli.server.requests.apis import APIS
from kcli.server.requests.context import RequestContext
from kcli.server.requests.dispatch import _load
from kcli.server.requests.operations import ALL_OPERATIONS
from kcli.server.requests.rights import EVERY_NAME, Need

# APIs that every connected client may call, whatever the ACLs: the login, and tokens that only their owner can name.
OPEN_APIS = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}

# APIs that the recorded requests did not contain: Kafka's source shows the rule.
NOT_RECORDED = {ApiKey.ENVELOPE}

# Rules that Kafka's authorizer log does not show: Kafka checks them without a line in the log, or the recorded requests
# did not reach them (two-phase commit, topics of transactions and of groups, loggers of a controller).
NOT_LOGGED = {
    ApiKey.METADATA: {access.CREATE_CLUSTER},
    ApiKey.INIT_PRODUCER_ID: {access.TWO_PHASE_COMMIT, access.IDEMPOTENT_WRITE, access.WRITE_TOPIC},
    ApiKey.DESCRIBE_TRANSACTIONS: {access.DESCRIBE_TOPIC},
    ApiKey.CONSUMER_GROUP_DESCRIBE: {access.DESCRIBE_TOPIC},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {access.CLUSTER_ACTION},
}

# The names of resource types in Kafka's authorizer log.
LOGGED_TYPES = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "Cluster": ResourceType.CLUSTER,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
    "DelegationToken": ResourceType.DELEGATION_TOKEN,
    "User": ResourceType.USER,
}
LOGGED = re.compile(
    r"Principal = User:\{USER\} .* operation = (\w+) .* resource = (\w+):.* for request = (\w+) "
)


def rule(key: ApiKey) -> Access:
    return APIS[key].access


WHOLE = sorted(key for key in APIS if rule(key).is_whole_request)


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: key.name)
def test_every_served_api_declares_what_it_asks_for(key: ApiKey) -> None:
    assert (rule(key) == OPEN) == (key in OPEN_APIS)
    assert len(set(rule(key).needs)) == len(rule(key).needs)


def asked_by_kafka(log: Path) -> dict[str, set[Need]]:
    """API -> what Kafka 4.1 asked for, as its authorizer logged it for requests under many sets of ACLs."""
    asked: dict[str, set[Need]] = {}
    for line in log.read_text().splitlines():
        for operation, resource_type, api in LOGGED.findall("\n".join(json.loads(line)["lines"])):
            asked.setdefault(api, set()).add(Need(AclOperation[operation], LOGGED_TYPES[resource_type]))
    return asked


def test_the_rules_are_what_kafka_asks_for(golden: Path) -> None:
    log = golden.parent / "golden2" / "authz" / "authorizer-log.jsonl"
    if not log.exists():
        pytest.skip(f"the authorizer log of Kafka 4.1 is not here: {log}")
    asked = asked_by_kafka(log)
    compared = [key for key in sorted(APIS) if API[key].name in asked]
    assert {key.name for key in set(APIS) - set(compared)} <= {key.name for key in OPEN_APIS | NOT_RECORDED}
    for key in compared:
        assert set(rule(key).needs) - NOT_LOGGED.get(key, set()) == asked[API[key].name], key.name


OFFERED: defaultdict[str, Mock] = defaultdict(Mock)
"""A node that offers every port."""


class DenyAll:
    """An authorizer that records the checks, and denies."""

    is_open = False

    def __init__(self, *allowed: AclOperation) -> None:
        self.asked: list[tuple[Asker, AclOperation, Resource, int]] = []
        self.allowed = allowed

    def authorize(
        self,
        asker: Asker,
        operation: AclOperation,
        resource: Resource,
        *,
        audit: Audit = Audit.FULL,
        count: int = 1,
    ) -> bool:
        self.asked.append((asker, operation, resource, count))
        return operation in self.allowed

    def authorize_any(self, asker: Asker, operation: AclOperation, resource_type: ResourceType) -> bool:
        return operation in self.allowed


ALICE = Session(Principal("User", "alice"), "PLAIN")


def request_of(key: ApiKey, authorizer: Authorizer) -> tuple[RequestContext, object]:
    ports, version = SimpleNamespace(), API[key].max_version
    context = RequestContext(ports, key, version, 1, "c", "SASL", "10.0.0.1", ALICE, authorizer=authorizer)
    return context, codec.message_class(key, "request")()


@pytest.mark.parametrize("key", WHOLE, ids=lambda key: key.name)
def test_a_whole_request_is_refused_before_its_handler_runs(key: ApiKey) -> None:
    authorizer = DenyAll()
    route = _load(APIS[key], OFFERED)
    context, request = request_of(key, authorizer)
    with pytest.raises(ClusterAuthorizationException) as error:
        at_once(route.handle(context, request))
    asker = Asker(ALICE.principal, "10.0.0.1", API[key].name)
    assert authorizer.asked == [(asker, need.operation, CLUSTER, 1) for need in rule(key).needs]
    response = at_once(route.error_response(context, request, error.value))
    assert getattr(response, "error_code", ErrorCode.CLUSTER_AUTHORIZATION_FAILED) is error.value.code
    assert at_once(route.encode(response, context.api_version, 1, no_pause))


def test_the_handlers_of_other_rules_are_called_directly() -> None:
    for key in sorted(set(APIS) - set(WHOLE)):
        handle = importlib.import_module(APIS[key].handler).handle
        assert inspect.iscoroutinefunction(handle)
        assert _load(APIS[key], OFFERED).handle is handle


def test_one_of_the_needs_of_a_whole_request_is_enough() -> None:
    async def answer(_context: object, request: object) -> object:
        return request

    handle = guard.guarded(
        answer,
        access.whole_request(access.ALTER_CLUSTER, access.CLUSTER_ACTION),
    )
    context, request = request_of(ApiKey.WRITE_TXN_MARKERS, DenyAll(AclOperation.CLUSTER_ACTION))
    assert at_once(handle(context, request)) is request


def test_without_an_authorizer_everything_is_allowed() -> None:
    context, _ = request_of(ApiKey.PRODUCE, ALLOW_ALL)
    rights = context.rights
    assert rights.allows(access.ALTER_CLUSTER)
    assert rights.allows_some(access.WRITE_TOPIC)
    assert at_once(context.allowed(access.READ_TOPIC, ["a", "b"])) is EVERY_NAME
    assert rights.operations(ResourceType.TOPIC, "a") == ALL_OPERATIONS[ResourceType.TOPIC]


def test_a_name_that_occurs_twice_is_checked_once_and_counted() -> None:
    authorizer = DenyAll(AclOperation.WRITE)
    context, _ = request_of(ApiKey.PRODUCE, authorizer)
    assert at_once(context.allowed(access.WRITE_TOPIC, ["a", "b", "a"])) == {"a", "b"}
    assert [(resource.name, count) for _, _, resource, count in authorizer.asked] == [("a", 2), ("b", 1)]


def test_the_bits_of_operations_are_those_that_the_authorizer_allows() -> None:
    context, _ = request_of(ApiKey.METADATA, DenyAll(AclOperation.READ, AclOperation.DESCRIBE))
    bits = context.rights.operations(ResourceType.TOPIC, "a")
    assert bits == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
