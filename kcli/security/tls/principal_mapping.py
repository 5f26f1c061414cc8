"""ssl.principal.mapping.rules: the rules that turn the distinguished name of a certificate into the name of a user
(KIP-371).

The value is a list of rules, separated by commas. The rule DEFAULT gives the distinguished name itself. All other rules
have the form `RULE:pattern/replacement/`. An L or U at the end of a rule converts the name to lower or upper case. A
backslash in a pattern or replacement escapes the next character, such as a slash. A pattern must match the whole
distinguished name. Then every match of the pattern is replaced, as by Java's `replaceAll`. The first rule that matches
gives the name.

Patterns are in Java's syntax (java_patterns.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kcli.config.definition import ConfigError
from kcli.model.java_regex import JavaRegexError
from kcli.model.java_text import trim
from kcli.security.java_patterns import JavaPattern, compile_java

KEY = "ssl.principal.mapping.rules"

_DEFAULT = "DEFAULT"
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_END = re.compile(r"\s*(?:,|\Z)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. A rule without a pattern is DEFAULT."""

    pattern: JavaPattern | None = None
    replacement: str = ""
    case: str = ""

    def name(self, distinguished_name: str) -> str | None:
        """The name of the user, or None if the pattern does not match. Raises ValueError if the replacement names a
        group that the pattern does not have."""
        if self.pattern is None:
            return distinguished_name
        if not self.pattern.matches(distinguished_name):
            return None
        name = self.pattern.replaced(distinguished_name, self.replacement)
        if self.case == "L":
            return name.lower()
        return name.upper() if self.case == "U" else name


@dataclass(frozen=True, slots=True)
class PrincipalMapping:
    """The rules of a listener, in order."""

    rules: tuple[Rule, ...]

    def name(self, distinguished_name: str) -> str:
        """The user name for a distinguished name. Raises ValueError with Kafka's text if no rule matches."""
        for rule in self.rules:
            name = rule.name(distinguished_name)
            if name is not None:
                return name
        raise ValueError(
            f"Failed to map name for '{distinguished_name}' based on SSL principal mapping rules."
        )


def parse_rules(text: str | None) -> PrincipalMapping:
    """Parses the value of ssl.principal.mapping.rules. Raises ConfigError with Kafka's text if a rule is invalid."""
    text = trim(_DEFAULT if text is None else text)
    rules: list[Rule] = []
    at = 0
    while at < len(text):
        at += len(text[at:]) - len(text[at:].lstrip(" \t\n\x0b\f\r"))
        rule, at = _next_rule(text, at)
        if rule is not None:
            rules.append(rule)
    return PrincipalMapping(tuple(rules))


def _next_rule(text: str, at: int) -> tuple[Rule | None, int]:
    """Parses the rule that begins at `at`. Returns the rule (None if it is empty), and the index at which the next rule
    begins.
    """
    match = _RULE.match(text, at)
    begins = match.end() if match else at + len(_DEFAULT) if text.startswith(_DEFAULT, at) else at
    end = _END.search(text, begins)
    assert end is not None, "the end of the text is an end"
    left = text[begins : end.start()]
    if left:
        rule = text[at : end.start()]
        raise ConfigError(f"Invalid rule: `{rule}`, unmatched substring: `{left}`", key=KEY)
    if match:
        return _rule(*match.groups(), text=match.group()), end.end()
    return (Rule() if begins > at else None), end.end()


def _rule(pattern: str, replacement: str, case: str, *, text: str) -> Rule:
    try:
        return Rule(compile_java(pattern), replacement, case)
    except JavaRegexError as error:
        raise ConfigError(f"Invalid rule: `{text}`: the pattern is invalid: {error}", key=KEY) from None
