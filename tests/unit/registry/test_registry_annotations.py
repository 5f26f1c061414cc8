"""The checks of rule sets."""

from __future__ import annotations

import pytest

from kcli.formats.registry.rule_sets import RuleSet
from kcli.registry.decisions.annotations import RULE_NAME_LENGTH_MAX, check_rule_set
from kcli.registry.decisions.errors import RegistryError

TWO_ACTIONS = "Multiple actions only valid with WRITEREAD and UPDOWN"


def rule(name: object = "r", **members: object) -> dict[str, object]:
    return {"name": name, "type": "CEL", **members}


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {
            "domainRules": [
                rule("_a-1"),
                rule("\N{LATIN SMALL LETTER E WITH ACUTE}"),
                rule("x" * RULE_NAME_LENGTH_MAX),
            ]
        },
        {"domainRules": [rule(onSuccess="NONE,ERROR", onFailure="ERROR,NONE")]},
        {"migrationRules": [rule(mode="UPDOWN", onFailure="A,B"), rule("s", mode="UPGRADE")]},
        {"encodingRules": [rule(mode="READ", onFailure="A")]},
    ],
)
def test_a_valid_rule_set_is_accepted(rules: dict[str, object]) -> None:
    check_rule_set(RuleSet.from_json(rules))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"domainRules": [rule(None)]}, "Missing rule name"),
        ({"domainRules": [rule("")]}, "Empty rule name"),
        ({"domainRules": [rule("x" * (RULE_NAME_LENGTH_MAX + 1))]}, "Rule name too long"),
        ({"domainRules": [rule("1a")]}, "Illegal initial character in rule name: 1a"),
        ({"domainRules": [rule("a b")]}, "Illegal character in rule name: a b"),
        ({"domainRules": [{"name": "r"}]}, "Missing rule type"),
        ({"domainRules": [rule(), rule()]}, "Found rule with duplicate name 'r'"),
        ({"domainRules": [rule()], "encodingRules": [rule()]}, "Found rule with duplicate name 'r'"),
        ({"domainRules": [rule(mode="UPGRADE")]}, "Domain rules can only be WRITE, READ, WRITEREAD"),
        ({"encodingRules": [rule(mode="UPDOWN")]}, "Encoding rules can only be WRITE, READ, WRITEREAD"),
        ({"migrationRules": [rule()]}, "Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN"),
        (
            {"domainRules": [rule(mode="READ", onSuccess="A,B")]},
            TWO_ACTIONS,
        ),
        (
            {"domainRules": [rule(mode="WRITE", onFailure="A,B")]},
            TWO_ACTIONS,
        ),
    ],
)
def test_an_invalid_rule_set_is_refused(rules: dict[str, object], message: str) -> None:
    with pytest.raises(RegistryError) as raised:
        check_rule_set(RuleSet.from_json(rules))
    assert (raised.value.code, raised.value.message) == (42210, message)


def test_the_status_of_an_error_is_the_beginning_of_its_code() -> None:
    assert [RegistryError(code, "m").status for code in (409, 40401, 42201, 50001)] == [409, 404, 422, 500]
