"""ssl.principal.mapping.rules. The names of this table come from java.util.regex, by the grammar of KIP-371."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.config.definition import ConfigError
from kcli.security.java_patterns import BACKTRACKING_NAME_MAX
from kcli.security.tls.principal_mapping import parse_rules

ALICE = "CN=alice,OU=dev,O=x,C=DE"

BY_JAVA = [
    ("DEFAULT", ALICE, ALICE),
    ("", ALICE, "!no"),
    ("RULE:^CN=(.*?),OU=mapping.*$/$1-from-cert/L,DEFAULT", ALICE, ALICE),
    ("RULE:^CN=(.*?),OU=mapping.*$/$1-from-cert/L,DEFAULT", "CN=Bob,OU=mapping,O=x", "bob-from-cert"),
    (
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L , DEFAULT",
        ALICE,
        "alice@dev",
    ),
    ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", ALICE, "alice"),
    ("RULE:^CN=(.*?),.*$/$1/U", ALICE, "ALICE"),
    ("RULE:.*/x/", ALICE, "xx"),
    ("RULE:^CN=(.*)$/$2/", ALICE, "$2"),
    ("RULE:^CN=.*$/$1/", ALICE, "!error"),
    ("RULE:^CN=(.*?),.*$/$12/", ALICE, "alice2"),
    ("RULE:^CN=(.*?),.*$/$0!/", ALICE, "CN=alice,OU=dev,O=x,C=DE!"),
    ("RULE:^CN=(.*?),.*$/a\\$1\\/b/", ALICE, "a$1/b"),
    ("RULE:^CN=(?<who>.*?),.*$/${who}/", ALICE, "alice"),
    ("RULE:^CN=(.*?),.*$/${x}/", ALICE, "!error"),
    ("RULE:^(?=CN)CN=(.*?),.*$/$1/", ALICE, "alice"),
    ("RULE:^CN=([^,]*+),.*$/$1/", ALICE, "alice"),
    ("RULE:^CN=(\\p{Alpha}+),.*$/$1/", ALICE, "alice"),
    ("RULE:^CN=([\\p{Alpha}_]+),.*$/$1/", ALICE, "alice"),
    ("RULE:^CN=(\\w+),.*$/$1/", "CN=Zoë,OU=y", "!no"),
    ("RULE:^CN=([a-z&&[^b]]+),.*$/$1/,DEFAULT", ALICE, "alice"),
    ("RULE:^CN=([a-z&&[^b]]+),.*$/$1/,DEFAULT", "CN=bob,OU=x", "CN=bob,OU=x"),
    ("RULE:^CN=([a-e[h-m]]+),.*$/$1/,DEFAULT", ALICE, "alice"),
    ("RULE:^CN=(\\Qalice\\E),.*$/$1/,DEFAULT", ALICE, "alice"),
    ("RULE:^CN=(?>[^,]+),.*$/x/,DEFAULT", ALICE, "x"),
    ("RULE:^CN=(.*)$/$1/,DEFAULT", "CN=a\rb", "CN=a\rb"),
    ("RULE:^CN=(.*?),.*$/$1/", "CN=Zoë,OU=y", "Zoë"),
    ("RULE:CN=alice/x/", ALICE, "!no"),
    ("RULE:(.)*/$1/", ALICE, "E"),
    ("DEFAULTx", ALICE, "!Invalid rule: `DEFAULTx`, unmatched substring: `x`"),
    ("foo", ALICE, "!Invalid rule: `foo`, unmatched substring: `foo`"),
    ("RULE:a/b/Lx", ALICE, "!Invalid rule: `RULE:a/b/Lx`, unmatched substring: `x`"),
    ("RULE:a/b", ALICE, "!Invalid rule: `RULE:a/b`, unmatched substring: `RULE:a/b`"),
    ("RULE:a", ALICE, "!Invalid rule: `RULE:a`, unmatched substring: `RULE:a`"),
    ("RULE:a,DEFAULT", ALICE, "!Invalid rule: `RULE:a`, unmatched substring: `RULE:a`"),
    ("DEFAULT,,RULE:a/b/", ALICE, ALICE),
    (",", ALICE, "!no"),
    (" DEFAULT ", ALICE, ALICE),
    ("RULE:a/b/ L", ALICE, "!Invalid rule: `RULE:a/b/ L`, unmatched substring: ` L`"),
    ("RULE:^CN=(.*?),OU=x/$1/L", ALICE, "!no"),
    ("RULE:^CN=(.*?),(.*?),.*$/$2,$1/", ALICE, "OU=dev,alice"),
    ("RULE:^CN=(.*?),.*$/$1/l", ALICE, "!Invalid rule: `RULE:^CN=(.*?),.*$/$1/l`, unmatched substring: `l`"),
    ("RULE:^CN=(.*?),.*$//", ALICE, ""),
    (
        "RULE:^CN=(.*?),.*$/$1",
        ALICE,
        "!Invalid rule: `RULE:^CN=(.*?)`, unmatched substring: `RULE:^CN=(.*?)`",
    ),
    ("RULE:^CN=(.*?)\\/x,.*$/$1/", "CN=al/x,OU=y", "al"),
    ("RULE:^CN=(.*?),.*$/$/", ALICE, "!error"),
    ("RULE:^CN=(.*?),.*$/a$b/", ALICE, "!error"),
    ("RULE:[a/$1/", ALICE, "!error"),
    ("RULE:()/z/", "", "z"),
    ("RULE:^CN=(.*?),OU=(.*?),.*$/$2\\\\$1/L", ALICE, "dev\\alice"),
    ("DEFAULT DEFAULT", ALICE, "!Invalid rule: `DEFAULT DEFAULT`, unmatched substring: ` DEFAULT`"),
    ("default", ALICE, "!Invalid rule: `default`, unmatched substring: `default`"),
    ("RULE:^cn=(.*?),.*$/$1/,RULE:(?i)^cn=(.*?),.*$/$1/", ALICE, "alice"),
    ("RULE:(CN=)?(.*?),.*/$1$2/", "alice,x", "alice"),
    ("RULE:(CN=)|(O.*)/<$1$2>/", "CN=", "<CN=>"),
    ("RULE:^CN=(.*?),.*$/$1/L,", ALICE, "alice"),
    ("RULE:^CN=(.*?)(?:,.*)?$/$1/U", ",", "!no"),
    ("RULE:(.*)/$10/", ALICE, "CN=alice,OU=dev,O=x,C=DE00"),
    ("RULE:(.*)/$01/", ALICE, ALICE),
    ("RULE:^CN=(.*?),.*$/$3$1/", ALICE, "$3alice"),
]
"""Rules, a distinguished name, and the name of the user. `!no` means that no rule matches, and another `!` an error."""


def mapped(rules: str, name: str) -> str:
    try:
        return parse_rules(rules).name(name)
    except ConfigError as error:
        return f"!{error}"
    except ValueError as error:
        return "!no" if str(error).startswith("Failed to map name for") else "!error"


@pytest.mark.parametrize(("rules", "name", "expected"), BY_JAVA)
def test_the_names_of_java(rules: str, name: str, expected: str) -> None:
    found = mapped(rules, name)
    assert found == expected or (expected == "!error" and found.startswith("!Invalid rule"))


def test_a_name_without_a_rule_has_the_text_of_kafka() -> None:
    with pytest.raises(
        ValueError, match=r"^Failed to map name for 'CN=x' based on SSL principal mapping rules\.$"
    ):
        parse_rules("RULE:^CN=y$/z/").name("CN=x")


def test_the_rules_in_order_and_the_default() -> None:
    rules = parse_rules("RULE:^CN=a,(.*)$/first/,RULE:^CN=(.*?),.*$/$1/U,DEFAULT")
    assert [rules.name(name) for name in ("CN=a,O=x", "CN=b,O=x", "O=x")] == ["first", "B", "O=x"]
    assert parse_rules(None).name(ALICE) == ALICE


def test_a_pattern_that_may_be_slow_is_not_used_for_long_names() -> None:
    rules = parse_rules("RULE:^(?=CN)CN=(.*)$/$1/")
    assert rules.name("CN=x") == "x"
    with pytest.raises(ValueError, match="Failed to map"):
        rules.name("CN=" + "x" * BACKTRACKING_NAME_MAX)


@given(
    st.text(alphabet="RULE:DEFAULT/,$\\1ax.*()[]{}^?+LU <>", max_size=40),
    st.text(alphabet="CN=aOU,x/\\", max_size=20),
)
def test_any_text_gives_a_name_or_an_error(rules: str, name: str) -> None:
    assert isinstance(mapped(rules, name), str)


@given(st.text(alphabet="ab,/\\$1 ", max_size=12), st.sampled_from(["", "L", "U"]))
def test_an_escaped_replacement_is_the_name(text: str, case: str) -> None:
    escaped = "".join(f"\\{character}" for character in text)
    found = parse_rules(f"RULE:^CN=.*$/{escaped}/{case}").name("CN=x")
    assert found == {"": text, "L": text.lower(), "U": text.upper()}[case]
