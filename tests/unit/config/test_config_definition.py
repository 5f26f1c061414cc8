from __future__ import annotations

import pytest

from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    NonEmpty,
    NonNull,
    OneOf,
    Range,
    RangeOr,
    Validator,
    parse_type,
    value_text,
)
from kcli.config.topic import TOPIC


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "False", False),
        (ConfigType.INT, " +12 ", 12),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.DOUBLE, "2.5d", 2.5),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.DOUBLE, "Infinity", float("inf")),
        (ConfigType.LIST, " a , b,c ", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "a,,b", ("a", "", "b")),
        (ConfigType.STRING, "  x y ", "x y"),
        (ConfigType.PASSWORD, " s ", "s"),
        (ConfigType.INT, None, None),
    ],
)
def test_texts_become_values(kind: ConfigType, text: str | None, value: ConfigValue) -> None:
    assert parse_type("k", text, kind) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "1.0", "Not a number of type INT"),
        (ConfigType.INT, "", "Not a number of type INT"),
        (ConfigType.INT, "1_0", "Not a number of type INT"),
        (ConfigType.SHORT, "40000", "Not a number of type SHORT"),
        (ConfigType.LONG, "x", "Not a number of type LONG"),
        (ConfigType.LONG, "9223372036854775808", "Not a number of type LONG"),
        (ConfigType.DOUBLE, "half", "Not a number of type DOUBLE"),
    ],
)
def test_refusals_have_kafkas_words(kind: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_type("some.key", text, kind)
    assert str(refused.value) == f"Invalid value {text} for configuration some.key: {reason}"
    assert refused.value.key == "some.key"


@pytest.mark.parametrize(
    ("validator", "value", "message"),
    [
        (Range(1), 0, "Invalid value 0 for configuration k: Value must be at least 1"),
        (Range(0, 1), 1.5, "Invalid value 1.5 for configuration k: Value must be no more than 1"),
        (Range(1), None, "Invalid value null for configuration k: Value must be non-null"),
        (
            RangeOr(1, 9, -1),
            0,
            "Invalid value 0 for configuration k: Value must be between 1 and 9 or equal to -1",
        ),
        (OneOf(("a", "b")), "c", "Invalid value c for configuration k: String must be one of: a, b"),
        (OneOf(("a", "b")), ("a", "c"), "Invalid value c for configuration k: String must be one of: a, b"),
        (
            OneOf(("A",), ignore_case=True),
            "b",
            "Invalid value b for configuration k: String must be one of (case insensitive): A",
        ),
        (NonEmpty(), "", "Invalid value  for configuration k: String must be non-empty"),
        (NonNull(), None, "Invalid value null for configuration k: entry must be non null"),
    ],
)
def test_validators_refuse_wrong_values_in_the_words_of_kafka(
    validator: Validator, value: ConfigValue, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        validator.check("k", value)
    assert str(refused.value) == message


def test_validators_accept_valid_values() -> None:
    Range(1).check("k", 1)
    Range(0, 1).check("k", 1.0)
    RangeOr(1, 9, -1).check("k", -1)
    OneOf(("A",), ignore_case=True).check("k", "a")
    NonEmpty().check("k", None)


def test_how_valid_values_are_shown() -> None:
    assert str(Range(0)) == "[0,...]"
    assert str(Range(0, 1)) == "[0,...,1]"
    assert str(Range(high=4)) == "[...,4]"
    assert str(RangeOr(1, 9, -1)) == "[1,...,9] or -1"
    assert str(OneOf(("a", "b"))) == "[a, b]"
    assert str(OneOf(("A",), ignore_case=True)) == "(case insensitive) [A]"


def test_throttled_replicas_are_a_star_or_a_list() -> None:
    key = TOPIC["leader.replication.throttled.replicas"]
    for text in ("", "*", "0:1,1:2"):
        key.parse(text)
    with pytest.raises(ConfigError, match=r"must be the literal '\*' or a list of replicas"):
        key.parse("0-1")


def test_values_as_describe_configs_carries_them() -> None:
    assert [value_text(value) for value in (None, True, 5, ("a", "b"), (), "x", 0.5)] == [
        None,
        "true",
        "5",
        "a,b",
        "",
        "x",
        "0.5",
    ]


def test_a_table_parses_what_is_set_and_defaults_the_rest() -> None:
    table = ConfigDef(
        (
            ConfigKey("a", ConfigType.INT, "1"),
            ConfigKey("b", ConfigType.STRING, None, required=True),
        )
    )
    assert table.parse({"b": "x", "unknown": "y"}) == {"a": 1, "b": "x"}
    with pytest.raises(ConfigError) as refused:
        table.parse({})
    assert str(refused.value) == 'Missing required configuration "b" which has no default value.'
    assert refused.value.at("f:1").located() == f"f:1: {refused.value}"
