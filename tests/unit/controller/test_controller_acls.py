"""Which ACLs the controller adds and removes, and which requests it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.controller import acls
from kcli.controller.api import CREATE_ACLS, DELETE_ACLS, IDLE_LIMIT_MS, ControllerApi
from kcli.controller.decision import MAX_RECORDS_PER_BATCH
from kcli.errors import ErrorCode, InvalidRequestException, PolicyViolationException
from kcli.metadata.image import AclEntry
from kcli.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kcli.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kcli.security.acls.filters import AclFilter
from rigs.controller import ControllerRig

ANY = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
NO_NAMES = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}


@pytest.fixture
def rig() -> ControllerRig:
    return ControllerRig()


def creation(name: str = "t", **changes: Any) -> AclCreation:
    fields: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AclCreation(**(fields | changes))


def create(rig: ControllerRig, *creations: AclCreation) -> tuple[list[tuple[str, str | None]], int]:
    decision = rig.decide(CREATE_ACLS, CreateAclsRequest(creations=creations))
    results = rig.obey(decision).results
    return [(each.error_code.name, each.error_message) for each in results], len(decision.records)


def delete(rig: ControllerRig, *filters: dict[str, Any]) -> tuple[list[Any], int]:
    asked = tuple(DeleteAclsFilter(**(ANY | NO_NAMES | each)) for each in filters)
    decision = rig.decide(DELETE_ACLS, DeleteAclsRequest(filters=asked))
    return list(rig.obey(decision).filter_results), len(decision.records)


def names(result: Any) -> list[str]:
    return sorted(each.resource_name for each in result.matching_acls)


def test_an_acl_that_exists_succeeds_without_a_record(rig: ControllerRig) -> None:
    assert create(rig, creation(), creation(), creation("u")) == ([("NONE", "")] * 3, 2)
    assert create(rig, creation(), creation("t", host="10.0.0.1")) == ([("NONE", "")] * 2, 1)
    assert len(rig.image.acls) == 3
    assert create(rig, creation(host="")) == ([("NONE", "")], 1)  # as in Kafka; it matches no client


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"resource_pattern_type": 9}, "Invalid patternType UNKNOWN"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": 77}, "Invalid operation UNKNOWN"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "bob"}, "Could not parse principal from `bob` (no colon is present"),
    ],
)
def test_an_invalid_acl_is_refused_and_the_others_are_added(
    rig: ControllerRig, changes: dict[str, Any], message: str
) -> None:
    (first, (code, text)), records = create(rig, creation("good"), creation(**changes))
    assert first == ("NONE", "")
    assert code == "INVALID_REQUEST"
    assert text is not None and text.startswith(message)
    assert records == 1


def test_too_many_acls_for_one_batch_are_refused(rig: ControllerRig) -> None:
    many = tuple(creation(f"t{number}") for number in range(MAX_RECORDS_PER_BATCH + 1))
    with pytest.raises(PolicyViolationException, match="excessively large batch"):
        create(rig, *many)
    assert not rig.image.acls


def test_a_filter_removes_what_it_matches_and_reports_it(rig: ControllerRig) -> None:
    create(
        rig,
        creation("orders"),
        creation("ord", resource_pattern_type=4),
        creation("*", principal="User:*"),
        creation("bills"),
        creation("orders", resource_type=3),
    )
    (found,), records = delete(rig, {"resource_type_filter": 2, "resource_name_filter": "orders"})
    assert (found.error_code, found.error_message, records) == (ErrorCode.NONE, None, 1)
    assert names(found) == ["orders"]
    (found,), records = delete(
        rig, {"resource_type_filter": 2, "resource_name_filter": "orders", "pattern_type_filter": 2}
    )
    assert (names(found), records) == (["*", "ord"], 2)
    (found,), records = delete(rig, {})
    assert (names(found), records) == (["bills", "orders"], 2)
    assert not rig.image.acls


def test_an_acl_of_two_filters_is_reported_twice_and_removed_once(rig: ControllerRig) -> None:
    create(rig, creation())
    found, records = delete(rig, {}, {"resource_name_filter": "t"}, {"principal_filter": "User:b"})
    assert [names(each) for each in found] == [["t"], ["t"], []]
    assert records == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resource_type_filter": 50}, "Unknown patternFilter."),
        ({"pattern_type_filter": 50}, "Unknown patternFilter."),
        ({"operation": 50}, "Unknown entryFilter."),
        ({"permission_type": 50}, "Unknown entryFilter."),
    ],
)
def test_a_filter_with_an_unknown_element_is_refused_alone(
    rig: ControllerRig, changes: dict[str, Any], message: str
) -> None:
    create(rig, creation())
    (bad, good), records = delete(rig, changes, {})
    assert (bad.error_code, bad.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert (names(good), records) == (["t"], 1)


def test_a_delete_of_too_many_acls_removes_none(rig: ControllerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "MAX_RECORDS_PER_BATCH", 3)
    create(rig, *(creation(f"a{number}") for number in range(3)))
    create(rig, creation("b"))
    with pytest.raises(InvalidRequestException, match="Cannot remove more than 3 acls in a single delete"):
        delete(rig, {})
    assert len(rig.image.acls) == 4


def test_the_answer_to_a_delete_is_bounded(rig: ControllerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "MATCHES_MAX", 5)
    create(rig, creation("a"), creation("b"))
    assert delete(rig, {"resource_name_filter": "a"}, {"resource_name_filter": "b"})[1] == 2
    create(rig, creation("a"), creation("b"))
    with pytest.raises(PolicyViolationException, match="match more than 5 ACLs"):
        delete(rig, {}, {}, {})


def test_decisions_between_the_steps_are_seen(rig: ControllerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "CREATIONS_PER_STEP", 1)
    monkeypatch.setattr(acls, "COMPARISONS_PER_STEP", 1)
    request = CreateAclsRequest(creations=(creation("a"), creation("b")))
    steps = acls.create_acls(rig.controller, request)
    assert list(next(steps)) == []
    create(rig, creation("a"))
    added = rig.last_step(steps)
    assert len(added.records) == 1
    rig.obey(added)
    removal = acls.delete_acls(
        rig.controller, DeleteAclsRequest(filters=(DeleteAclsFilter(**(ANY | NO_NAMES)),))
    )
    assert list(next(removal)) == []
    delete(rig, {"resource_name_filter": "a"})
    last = rig.last_step(removal)
    assert len(last.records) == 1, "the other decision has removed the other ACL"
    rig.obey(last)
    assert not rig.image.acls


@pytest.mark.parametrize(
    ("asked", "matched"),
    [
        (AclFilter(), True),
        (AclFilter(resource_name="orders-eu", pattern_type=2), True),
        (AclFilter(resource_name="orders-eu", pattern_type=1), False),
        (AclFilter(resource_name="ord", pattern_type=2), False),
        (AclFilter(resource_name="orders", pattern_type=4), True),
        (AclFilter(resource_name="orders", pattern_type=3), False),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(operation=3), False),
    ],
)
def test_a_filter_matches_a_prefix(asked: AclFilter, matched: bool) -> None:
    assert asked.matches(AclEntry(2, "orders", 4, "User:a", "*", 4, 3)) == matched


@pytest.mark.parametrize("api", [CREATE_ACLS, DELETE_ACLS], ids=lambda api: api.key.name)
def test_a_request_about_acls_waits_as_long_as_an_idle_connection(api: ControllerApi[Any, Any]) -> None:
    for idle_ms, limit_ms in ((1234, 1234), (-1, IDLE_LIMIT_MS)):
        settings = ControllerRig(config={"connections.max.idle.ms": idle_ms}).settings
        assert api.timeout_ms is not None
        assert api.timeout_ms(CreateAclsRequest(), settings) == limit_ms
