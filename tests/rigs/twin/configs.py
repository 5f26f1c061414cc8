"""Configs and quotas."""

from __future__ import annotations

from kcli.model.configs import ConfigResourceType
from kcli.protocol.wire.api import ApiKey
from rigs.twin.case import Case, Data

TOPIC, BROKER, GROUP, METRICS = (
    int(ConfigResourceType.TOPIC),
    int(ConfigResourceType.BROKER),
    int(ConfigResourceType.GROUP),
    int(ConfigResourceType.CLIENT_METRICS),
)


def _describe(kind: int, name: str, keys: tuple[str, ...] | None) -> dict[str, Data]:
    return {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        "include_synonyms": True,
    }


_DESCRIBE = (
    Case(
        "a topic, all keys",
        ApiKey.DESCRIBE_CONFIGS,
        _describe(TOPIC, "twin-compact", None),
        {"results.error_code": 0, "results.error_message": ""},
    ),
    Case(
        "one key and one that is not there",
        ApiKey.DESCRIBE_CONFIGS,
        _describe(TOPIC, "twin-compact", ("cleanup.policy", "no.such.key")),
        {"results.configs.name": "cleanup.policy", "results.configs.value": "compact"},
    ),
    Case(
        "an empty list of keys",
        ApiKey.DESCRIBE_CONFIGS,
        _describe(GROUP, "twin-g", ()),
        {"results.error_code": 0, "results.error_message": "", "results.configs.config_source": (5,) * 10},
    ),
    Case(
        "a key of a group",
        ApiKey.DESCRIBE_CONFIGS,
        _describe(GROUP, "twin-g", ("consumer.session.timeout.ms",)),
        {
            "results.configs.synonyms.name": "consumer.session.timeout.ms",
            "results.configs.synonyms.value": "45000",
            "results.configs.synonyms.source": 5,
        },
    ),
    Case("a subscription", ApiKey.DESCRIBE_CONFIGS, _describe(METRICS, "twin-m", ()), {"results.error_code": 0}),
    Case("the defaults of all brokers", ApiKey.DESCRIBE_CONFIGS, _describe(BROKER, "", None)),
    Case("a broker of no number", ApiKey.DESCRIBE_CONFIGS, _describe(BROKER, "x", None), {"results.error_code": 42}),
    Case(
        "an unknown topic",
        ApiKey.DESCRIBE_CONFIGS,
        _describe(TOPIC, "twin-nope", None),
        {"results.error_code": 3, "results.error_message": ""},
    ),
    Case("a bad name", ApiKey.DESCRIBE_CONFIGS, _describe(TOPIC, "a b", None), {"results.error_code": 17}),
    Case("a group of no name", ApiKey.DESCRIBE_CONFIGS, _describe(GROUP, "", None), {"results.error_code": 42}),
    Case("a resource of no kind", ApiKey.DESCRIBE_CONFIGS, _describe(77, "x", None)),
    Case("topics", ApiKey.LIST_CONFIG_RESOURCES, {"resource_types": [TOPIC]}, {"error_code": 0}, since=1),
    Case("a resource of no kind", ApiKey.LIST_CONFIG_RESOURCES, {"resource_types": [77]}, {"error_code": 35}, since=1),
)  # fmt: skip


def _alter(key: ApiKey, name: str, *resources: dict[str, Data]) -> Case:
    return Case(name, key, {"resources": list(resources), "validate_only": True})


def _change(
    kind: int, name: str, key: str, value: str | None, operation: int | None = None
) -> dict[str, Data]:
    config: dict[str, Data] = {"name": key, "value": value}
    if operation is not None:
        config["config_operation"] = operation
    return {"resource_type": kind, "resource_name": name, "configs": [config]}


_ALTER = tuple(
    _alter(key, name, *(_change(*change, *operation) for change in changes))
    for key, operation in ((ApiKey.ALTER_CONFIGS, ()), (ApiKey.INCREMENTAL_ALTER_CONFIGS, (0,)))
    for name, changes in (
        ("a topic", [(TOPIC, "twin-a", "retention.ms", "1000")]),
        ("an unknown key", [(TOPIC, "twin-a", "no.such.key", "1")]),
        ("an invalid value", [(TOPIC, "twin-a", "retention.ms", "soon")]),
        ("a null", [(TOPIC, "twin-a", "retention.ms", None)]),
        ("an unknown topic", [(TOPIC, "twin-nope", "retention.ms", "1000")]),
        ("a topic twice", [(TOPIC, "twin-a", "retention.ms", "1"), (TOPIC, "twin-a", "retention.ms", "2")]),
        ("a group", [(GROUP, "twin-g", "consumer.session.timeout.ms", "46000")]),
        ("a timeout beyond its limit", [(GROUP, "twin-g", "consumer.session.timeout.ms", "1")]),
        ("a subscription", [(METRICS, "twin-m", "interval.ms", "1000")]),
        ("the defaults of all brokers", [(BROKER, "", "log.retention.ms", "1000")]),
        ("a key of a broker that is read only", [(BROKER, "", "broker.rack", "x")]),
    )
)


def _quota(name: str | None, key: str, value: float, kind: str = "user") -> dict[str, Data]:
    return {
        "entries": [
            {"entity": [{"entity_type": kind, "entity_name": name}], "ops": [{"key": key, "value": value}]},
        ]
    }


_QUOTAS = (
    Case(
        "the quotas of a user",
        ApiKey.ALTER_CLIENT_QUOTAS,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "twin"}],
                    "ops": [
                        {"key": "producer_byte_rate", "value": 1e9},
                        {"key": "consumer_byte_rate", "value": 2e9},
                    ],
                }
            ]
        },
        {"entries.error_code": 0, "entries.error_message": None},
    ),
    Case("an unknown key", ApiKey.ALTER_CLIENT_QUOTAS, _quota("u", "no.such", 1.0), {"entries.error_code": 42}),
    Case("nothing", ApiKey.ALTER_CLIENT_QUOTAS, _quota("u", "request_percentage", 0.0), {"entries.error_code": 42}),
    Case("an entity of no kind", ApiKey.ALTER_CLIENT_QUOTAS, _quota("u", "x", 1.0, "cat"), {"entries.error_code": 42}),
    Case(
        "the quotas of a user",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        {"components": [{"entity_type": "user", "match_type": 0, "match": "twin"}], "strict": True},
        {
            "error_code": 0,
            "error_message": "",
            "entries.values.key": ("consumer_byte_rate", "producer_byte_rate"),
        },
    ),
    Case(
        "a kind twice",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        {"components": [{"entity_type": "user", "match_type": 2, "match": None}] * 2},
        {"error_code": 42, "entries": None},
    ),
    Case(
        "an entity of no kind",
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        {"components": [{"entity_type": "cat", "match_type": 2, "match": None}]},
        {"error_code": 35, "entries": None},
    ),
)  # fmt: skip

CONFIGS = (*_DESCRIBE, *_ALTER, *_QUOTAS)
