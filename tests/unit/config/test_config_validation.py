from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    OneOf,
    Range,
)
from kcli.config.validation import embedded, groups, sorted_keys, validate


class Modes:
    """Recommends two modes. The key is visible only if `on` is true."""

    def valid_values(self, key: str, values: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        if values["on"] is None:
            raise ConfigError(f"{key} needs on")
        return ("slow", "fast")

    def visible(self, key: str, values: Mapping[str, ConfigValue]) -> bool:
        return values["on"] is True


KEYS = ConfigDef(
    [
        ConfigKey("on", ConfigType.BOOLEAN, "false", group="Main", order=2, dependents=("mode",)),
        ConfigKey("mode", ConfigType.STRING, "slow", OneOf(("slow", "fast")), recommender=Modes()),
        ConfigKey("count", ConfigType.INT, "1", Range(1), group="Main", order=1),
        ConfigKey("name", ConfigType.STRING, None, required=True, importance=Importance.HIGH),
        ConfigKey("size", ConfigType.INT, "0", importance=Importance.HIGH),
    ]
)


def test_every_error_of_every_key_is_reported() -> None:
    results = validate(KEYS, {"on": "maybe", "mode": "x", "count": "many", "other": "1"})
    assert {name: result.errors for name, result in results.items()} == {
        "on": ["Invalid value maybe for configuration on: Expected value to be either true or false"],
        "mode": [
            "Invalid value x for configuration mode: String must be one of: slow, fast",
            "mode needs on",
        ],
        # The validator also sees a value that is not a number, as null.
        "count": [
            "Invalid value many for configuration count: Not a number of type INT",
            "Invalid value null for configuration count: Value must be non-null",
        ],
        "name": ['Missing required configuration "name" which has no default value.'],
        "size": [],
    }


def test_values_defaults_and_recommendations() -> None:
    results = validate(KEYS, {"on": "TRUE", "name": " n ", "size": None})
    assert {name: result.value for name, result in results.items()} == {
        "on": True,
        "mode": "slow",
        "count": 1,
        "name": "n",
        "size": None,
    }
    assert (results["mode"].recommended, results["mode"].visible) == (("slow", "fast"), True)
    assert not validate(KEYS, {"name": "n"})["mode"].visible


def test_a_dependent_that_is_not_defined_is_an_error() -> None:
    keys = ConfigDef([ConfigKey("a", ConfigType.INT, "1", dependents=("b",))])
    result = validate(keys, {})["b"]
    assert result.errors == ["b is referred in the dependents, but not defined."]
    assert not result.visible


def test_a_class_has_its_full_name() -> None:
    names = {"Json": "org.example.Json"}
    keys = ConfigDef([ConfigKey("converter", ConfigType.CLASS, None, find_class=names.get)])
    assert validate(keys, {"converter": "Json"})["converter"].value == "org.example.Json"
    result = validate(keys, {"converter": "Nope"})["converter"]
    assert result.value is None
    assert result.errors == ["Invalid value Nope for configuration converter: Class Nope could not be found."]


def test_the_order_of_a_form() -> None:
    assert groups(KEYS) == ["Main"]
    assert [key.name for key in sorted_keys(KEYS)] == ["name", "size", "mode", "count", "on"]


def test_embedded_keys_have_a_prefix_a_group_and_a_place() -> None:
    keys = ConfigDef(embedded("t.x.", "Transforms: x", 2, KEYS))
    assert [(key.name, key.group, key.order) for key in keys.values()] == [
        ("t.x.name", "Transforms: x", 2),
        ("t.x.size", "Transforms: x", 3),
        ("t.x.mode", "Transforms: x", 4),
        ("t.x.count", "Transforms: x: Main", 5),
        ("t.x.on", "Transforms: x: Main", 6),
    ]
    assert [key.display_name for key in keys.values()] == ["name", "size", "mode", "count", "on"]
    results = validate(keys, {"t.x.count": "0", "t.x.on": "true", "t.x.size": "x"})
    # A validator sees the short name, but the conversion sees the full name.
    assert results["t.x.count"].errors == [
        "Invalid value 0 for configuration count: Value must be at least 1"
    ]
    assert results["t.x.size"].errors == [
        "Invalid value x for configuration t.x.size: Not a number of type INT"
    ]
    assert results["t.x.mode"].visible
    assert keys["t.x.on"].dependents == ("t.x.mode",)
    assert str(keys["t.x.count"].validator) == "[1,...]"
