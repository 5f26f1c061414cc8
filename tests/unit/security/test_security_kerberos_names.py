"""The rules from the name of a Kerberos principal to the name of a user."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.security.kerberos_names import KerberosName, NoName, default_realm, parse_rules

RULES = (
    r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g",
    "RULE:[1:$1@$0](.*@OTHER)s/@.*//L",
    "RULE:[2:$1;$2](^.*;admin$)s/;admin$//U",
    "RULE:[2:$1]/L",
    "DEFAULT",
)


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("App.service-name@REALM", "service-name"),
        ("App.service-name/example.com@REALM", "service-name"),
        ("User@OTHER", "user"),
        ("joe/admin@REALM", "JOE"),
        ("Kafka/host@REALM", "kafka"),
        ("user@REALM", "user"),
        ("user", "user"),
    ],
)
def test_the_first_rule_that_gives_a_name_counts(principal: str, name: str) -> None:
    assert parse_rules(RULES, "REALM").short_name(principal) == name


@pytest.mark.parametrize(
    ("rules", "principal", "message"),
    [
        (["DEFAULT"], "user@OTHER", r"No rules apply to user@OTHER, rules \[DEFAULT\]"),
        (["RULE:[2:$1]"], "user@REALM", "No rules apply to user@REALM"),
        (["RULE:[1:$1@$0]"], "user@REALM", "Non-simple name user@REALM after auth_to_local rule"),
        (["RULE:[2:$1/$2]"], "a/b@REALM", "Non-simple name a/b after"),
        (["RULE:[1:$2]"], "user@REALM", "index 2 from .* is outside of the valid range 0 to 1"),
        (["RULE:[1:$1]s/u/$9/"], "user@REALM", "No group 9"),
        (["DEFAULT"], "a/b/c@REALM", "Malformed Kerberos name: a/b/c@REALM"),
        (["DEFAULT"], "a@b@REALM", "Malformed Kerberos name"),
        (["DEFAULT"], "a/b", "Malformed Kerberos name"),
    ],
)
def test_a_principal_without_a_name_is_refused(rules: list[str], principal: str, message: str) -> None:
    with pytest.raises(NoName, match=message):
        parse_rules(rules, "REALM").short_name(principal)


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("RULE:[1:$1]s/a/b/", "bna"),
        ("RULE:[1:$1]s/a/b/g", "bnb"),
        ("RULE:[1:$1]s/a/b/gU", "BNB"),
        ("RULE:[1:$1]s/a/b/g/U", "BNB"),
        ("RULE:[1:$1$1]/U", "ANAANA"),
        ("RULE:[1:x$1](xana)", "xana"),
    ],
)
def test_a_rule_replaces_the_first_match_or_all(rule: str, name: str) -> None:
    assert parse_rules([rule], None).short_name("ana@REALM") == name


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("default", "Invalid rule: default"),
        ("DEFAULT/L", "Invalid rule: `DEFAULT/L`, unmatched substring: `/L`"),
        ("RULE:[1:$1", r"Invalid rule: RULE:\[1:\$1"),
        ("RULE:[n:$1]", "Invalid rule"),
        ("RULE:[\N{ARABIC-INDIC DIGIT ONE}:$1]", "Invalid rule"),
        ("RULE:[1:$1]s/a/b", "unmatched substring: `s/a/b`"),
        ("RULE:[1:$1]/g", "unmatched substring: `g`"),
        ("RULE:[1:$1]([)", r"Invalid rule: RULE:\[1:\$1\]\(\["),
    ],
)
def test_an_invalid_rule_has_the_error_of_kafka(rule: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_rules([rule], "REALM")


def test_without_a_default_realm_the_default_rule_gives_no_name() -> None:
    with pytest.raises(NoName):
        parse_rules(["DEFAULT"], None).short_name("user@REALM")


@pytest.mark.parametrize(
    ("text", "realm"),
    [
        ("[libdefaults]\n  default_realm = A.B\n", "A.B"),
        (
            "# default_realm = X\n[realms]\ndefault_realm = X\n[libdefaults]\ndns = no\ndefault_realm=Y\n[z]\n",
            "Y",
        ),
        ("[libdefaults]\n[realms]\n default_realm = X\n", None),
        ("", None),
    ],
)
def test_the_default_realm_is_in_krb5_conf(tmp_path: Path, text: str, realm: str | None) -> None:
    path = tmp_path / "krb5.conf"
    path.write_text(text)
    assert default_realm({"KRB5_CONFIG": f"{tmp_path}/missing:{path}"}) == realm
    assert default_realm({}, str(path)) == realm


@given(st.text())
def test_any_text_is_a_name_or_refused(text: str) -> None:
    names = parse_rules(RULES, "REALM")
    try:
        found = names.short_name(text)
    except NoName:
        return
    assert not {"/", "@"} & set(found)
    assert str(KerberosName.of(text)) == text
