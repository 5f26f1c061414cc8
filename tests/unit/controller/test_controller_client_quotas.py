"""Client quotas: which may be set for whom, what is written, and which ones a filter finds."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.controller.api import ALTER_CLIENT_QUOTAS, CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from kcli.controller.client_quotas import describe_client_quotas
from kcli.errors import (
    InvalidRequestException,
    ThrottlingQuotaExceededException,
    UnsupportedVersionException,
)
from kcli.model.pace import at_once, no_pause
from kcli.protocol.messages import alter_client_quotas as aq
from kcli.protocol.messages import create_partitions as cp
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.messages import describe_client_quotas as dq
from kcli.protocol.records.metadata import ClientQuotaRecord, QuotaEntity
from rigs.controller import ControllerRig

IP_WITH_OTHERS = (
    "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
    "filter component."
)
USER, CLIENT, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = range(3)


@pytest.fixture
def rig() -> ControllerRig:
    return ControllerRig()


def entry(entity: list[Any], **quotas: Any) -> aq.RequestEntryData:
    """`entity` as (type, name) pairs; a quota of None is removed."""
    return aq.RequestEntryData(
        entity=tuple(aq.RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity),
        ops=tuple(
            aq.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()
        ),
    )


def alter(rig: ControllerRig, *entries: aq.RequestEntryData, validate: bool = False) -> tuple[Any, ...]:
    request = aq.AlterClientQuotasRequest(entries=entries, validate_only=validate)
    decision = rig.decide(ALTER_CLIENT_QUOTAS, request, resolvable=lambda address: address[0].isdecimal())
    response = rig.obey(decision)
    return [(each.error_code.name, each.error_message) for each in response.entries], decision.records


def find(rig: ControllerRig, *components: tuple[Any, ...], strict: bool = True) -> list[Any]:
    """[(entity, quotas)] as dicts."""
    request = dq.DescribeClientQuotasRequest(
        components=tuple(
            dq.ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components
        ),
        strict=strict,
    )
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in each.values},
        )
        for each in at_once(describe_client_quotas(rig.image, request, no_pause)).entries
    ]


def test_values_have_the_order_of_a_hash_map_with_room_for_them(rig: ControllerRig) -> None:
    keys = ("consumer_byte_rate", "controller_mutation_rate", "producer_byte_rate", "request_percentage")

    def shown(*quotas: str) -> list[str]:
        alter(rig, entry([(USER, "u")], **dict.fromkeys(keys, None) | dict.fromkeys(quotas, 1.0)))
        request = dq.DescribeClientQuotasRequest()
        (found,) = at_once(describe_client_quotas(rig.image, request, no_pause)).entries or ()
        return [value.key for value in found.values]

    # As a HashMap of Java 17 lists them.
    assert shown(*keys[::2]) == ["consumer_byte_rate", "producer_byte_rate"]
    assert shown(*keys) == [keys[2], keys[0], keys[1], keys[3]]


def test_quotas_are_set_changed_and_removed(rig: ControllerRig) -> None:
    results, records = alter(rig, entry([(USER, "u"), (CLIENT, None)], producer_byte_rate=10.0))
    assert results == [("NONE", None)]
    (record,) = records
    assert isinstance(record, ClientQuotaRecord)
    assert set(record.entity) == {
        QuotaEntity(entity_type=USER, entity_name="u"),
        QuotaEntity(entity_type=CLIENT, entity_name=None),
    }
    assert (record.key, record.value, record.remove) == ("producer_byte_rate", 10.0, False)
    # What is so already writes nothing, in whatever order the entity is named.
    assert alter(rig, entry([(CLIENT, None), (USER, "u")], producer_byte_rate=10.0)) == (results, ())
    alter(rig, entry([(CLIENT, None), (USER, "u")], producer_byte_rate=20.0, request_percentage=0.5))
    assert find(rig, (USER, EXACT, "u"), (CLIENT, DEFAULT, None)) == [
        ({USER: "u", CLIENT: None}, {"producer_byte_rate": 20.0, "request_percentage": 0.5})
    ]
    _, records = alter(
        rig, entry([(CLIENT, None), (USER, "u")], producer_byte_rate=None, consumer_byte_rate=None)
    )
    assert [(record.key, record.remove) for record in records] == [("producer_byte_rate", True)]
    alter(rig, entry([(CLIENT, None), (USER, "u")], request_percentage=None))
    assert not rig.image.client_quotas


def test_only_validating_writes_nothing(rig: ControllerRig) -> None:
    results, records = alter(rig, entry([(USER, "u")], producer_byte_rate=1.0), validate=True)
    assert (results, records) == ([("NONE", None)], ())


@pytest.mark.parametrize(
    ("entity", "quotas", "message"),
    [
        ([], {"producer_byte_rate": 1}, "Invalid empty client quota entity"),
        ([("group", "g")], {"producer_byte_rate": 1}, "Unhandled client quota entity type: group"),
        ([(USER, "")], {"producer_byte_rate": 1}, "Empty user not supported"),
        (
            [(USER, "a"), (USER, "b")],
            {"producer_byte_rate": 1},
            "Invalid client quota entity, duplicate entity entry user",
        ),
        (
            [(IP, "1.2.3.4"), (USER, "a")],
            {"connection_creation_rate": 1},
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        ([(IP, "nowhere")], {"connection_creation_rate": 1}, "nowhere is not a valid IP or resolvable host."),
        ([(IP, "1.2.3.4")], {"producer_byte_rate": 1}, "Invalid configuration key producer_byte_rate"),
        (
            [(CLIENT, "a")],
            {"connection_creation_rate": 1},
            "Invalid configuration key connection_creation_rate",
        ),
        ([(USER, "a")], {"SCRAM-SHA-256": 1}, "Invalid configuration key SCRAM-SHA-256"),
        ([(USER, "a")], {"producer_byte_rate": -1}, "Quota producer_byte_rate must be greater than 0"),
        (
            [(USER, "a")],
            {"request_percentage": float("nan")},
            "Quota request_percentage must be greater than 0",
        ),
        ([(USER, "a")], {"consumer_byte_rate": 1.5}, "consumer_byte_rate cannot be a fractional value."),
        (
            [(USER, "a")],
            {"consumer_byte_rate": 1e19},
            "Proposed value for consumer_byte_rate is too large for a LONG.",
        ),
        (
            [(IP, None)],
            {"connection_creation_rate": 2.0**31},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_invalid_alterations_are_refused(
    rig: ControllerRig, entity: list[Any], quotas: dict[Any, Any], message: str
) -> None:
    results, records = alter(rig, entry(entity, **quotas), entry([(USER, "good")], producer_byte_rate=1.0))
    assert results == [("INVALID_REQUEST", message), ("NONE", None)]
    assert [record.entity[0].entity_name for record in records] == ["good"]


def test_a_duplicate_entity_is_refused(rig: ControllerRig) -> None:
    double = aq.RequestEntryData(
        entity=(aq.RequestEntityData(entity_type=USER, entity_name=None),),
        ops=(aq.OpData(key="producer_byte_rate", value=1.0), aq.OpData(key="producer_byte_rate", value=2.0)),
    )
    results, records = alter(rig, double)
    assert results == [
        ("INVALID_REQUEST", "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})")
    ]
    assert records == ()
    same = entry([(USER, "u")], producer_byte_rate=1.0)
    results, _ = alter(rig, same, same)
    assert results == [("INVALID_REQUEST", "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})")]


def test_a_filter_selects_entities_by_type_and_name(rig: ControllerRig) -> None:
    for entity in (
        [(USER, "u")],
        [(USER, None)],
        [(USER, "u"), (CLIENT, "c")],
        [(CLIENT, "c")],
        [(IP, "1.1.1.1")],
    ):
        quota = "connection_creation_rate" if entity[0][0] == IP else "controller_mutation_rate"
        alter(rig, entry(entity, **{quota: 1.0}))

    def found(*components: tuple[Any, ...], strict: bool = True) -> list[Any]:
        return [entity for entity, _ in find(rig, *components, strict=strict)]

    assert found((USER, EXACT, "u")) == [{USER: "u"}]
    assert found((USER, DEFAULT, None)) == [{USER: None}]
    assert found((USER, ANY, None)) == [{USER: "u"}, {USER: None}]
    assert found((USER, EXACT, "u"), strict=False) == [{USER: "u"}, {USER: "u", CLIENT: "c"}]
    assert found((USER, ANY, None), (CLIENT, ANY, None)) == [{USER: "u", CLIENT: "c"}]
    assert found((IP, ANY, None)) == [{IP: "1.1.1.1"}]
    assert found((IP, EXACT, "2.2.2.2")) == []
    assert len(found(strict=False)) == 5
    assert found(strict=True) == []


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        ([("", ANY, None)], InvalidRequestException, "Invalid empty entity type."),
        (
            [(USER, ANY, None), (USER, ANY, None)],
            InvalidRequestException,
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("group", ANY, None)], UnsupportedVersionException, "Unsupported entity type group"),
        (
            [(USER, EXACT, None)],
            InvalidRequestException,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [(USER, DEFAULT, "u")],
            InvalidRequestException,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [(USER, ANY, "u")],
            InvalidRequestException,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([(USER, 3, None)], InvalidRequestException, "Unknown match type 3"),
        (
            [(USER, ANY, None), (IP, ANY, None)],
            InvalidRequestException,
            IP_WITH_OTHERS,
        ),
    ],
)
def test_filters_that_can_find_nothing(
    rig: ControllerRig,
    components: list[Any],
    error: type[InvalidRequestException] | type[UnsupportedVersionException],
    message: str,
) -> None:
    with pytest.raises(error) as refused:
        find(rig, *components)
    assert refused.value.message == message


def test_partitions_are_charged_for_and_may_be_refused(rig: ControllerRig) -> None:
    """KIP-599: each topic by itself; what is refused is not done."""
    rig.add_brokers(1)
    charged = []

    def charge(count: int) -> None:
        if sum(charged) + count > 5:
            raise ThrottlingQuotaExceededException
        charged.append(count)

    def topic(name: str, partitions: int) -> ct.CreatableTopic:
        return ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)

    request = ct.CreateTopicsRequest(topics=(topic("a", 3), topic("bad", 0), topic("b", 4), topic("c", 1)))
    response = rig.obey(rig.decide(CREATE_TOPICS, request, charge=charge))
    codes = [each.error_code.name for each in response.topics]
    assert codes == ["NONE", "INVALID_PARTITIONS", "THROTTLING_QUOTA_EXCEEDED", "NONE"]
    assert charged == [3, 1]
    assert list(rig.image.topics.names) == ["a", "c"]
    growing = cp.CreatePartitionsTopic(name="a", count=4, assignments=None)
    grown = rig.obey(
        rig.decide(CREATE_PARTITIONS, cp.CreatePartitionsRequest(topics=(growing,)), charge=charge)
    )
    assert grown.results[0].error_code.name == "NONE"
    assert charged == [3, 1, 1]
    deletion = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name="a"),))
    deleted = rig.obey(rig.decide(DELETE_TOPICS, deletion, api_version=6, charge=charge))
    assert deleted.responses[0].error_code.name == "THROTTLING_QUOTA_EXCEEDED"
    assert "a" in rig.image.topics
