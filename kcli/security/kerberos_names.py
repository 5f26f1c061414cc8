"""sasl.kerberos.principal.to.local.rules: the rules that turn the name of a Kerberos principal into the name of a user.

A principal has the form `primary/instance@REALM`, and the instance may be missing. The key has a list of rules. The
first rule that gives a name decides:

    DEFAULT                                        the primary, if the realm is the default realm
    RULE:[n:format](regex)s/from/to/g/L            for a name with n parts; all after the brackets is optional

In `format`, `$0` is the realm, `$1` the primary and `$2` the instance. The regex must match the formatted text. Then
`s` replaces the first match of `from` by `to`. With `g`, it replaces every match. L or U at the end converts the name
to lower or upper case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kcli.model.java_regex import JavaRegexError
from kcli.model.java_text import parse_int, trim
from kcli.security.java_patterns import JavaPattern, compile_java

_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = re.compile(
    r"RULE:\[(?P<parts>\d+):(?P<format>[^\]]*)\](?:\((?P<regex>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?",
    re.ASCII,
)
_PARAMETER = re.compile(r"\$([0-9]{1,9})")
_NOT_SIMPLE = re.compile(r"[/@]")
_DEFAULT = "DEFAULT"


class NoName(ValueError):
    """A principal for which the rules give no name. The text is Kafka's."""


@dataclass(frozen=True, slots=True)
class KerberosName:
    """A principal's name in its parts."""

    primary: str
    instance: str | None
    realm: str | None

    @classmethod
    def of(cls, text: str) -> KerberosName:
        """Splits the name of a principal. Raises NoName if the name is malformed."""
        match = _NAME.fullmatch(text)
        if match is not None:
            return cls(match[1], match[2], match[3])
        if "@" in text or "/" in text:
            raise NoName(f"Malformed Kerberos name: {text}")
        return cls(text, None, None)

    def __str__(self) -> str:
        instance = "" if self.instance is None else f"/{self.instance}"
        return f"{self.primary}{instance}" + ("" if self.realm is None else f"@{self.realm}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. A rule without a format is DEFAULT."""

    text: str
    parts: int = 0
    format: str | None = None
    regex: JavaPattern | None = None
    pattern: JavaPattern | None = None
    replacement: str = ""
    replaces_all: bool = False
    case: str | None = None

    def name(self, parameters: tuple[str, ...], default_realm: str | None) -> str | None:
        """The user name that this rule gives, or None if the rule does not apply. The parameters are realm, primary and
        instance. Raises NoName if the result contains / or @."""
        result: str | None = None
        if self.format is None:
            if default_realm is not None and parameters[0] == default_realm:
                result = parameters[1]
        elif len(parameters) - 1 == self.parts:
            base = _formatted(self.format, parameters)
            if self.regex is None or self.regex.matches(base):
                result = self._replaced(base)
        if result is None:
            return None
        if _NOT_SIMPLE.search(result):
            raise NoName(f"Non-simple name {result} after auth_to_local rule {self.text}")
        if self.case == "L":
            return result.lower()
        return result.upper() if self.case == "U" else result

    def _replaced(self, base: str) -> str:
        if self.pattern is None:
            return base
        try:
            return self.pattern.replaced(base, self.replacement, once=not self.replaces_all)
        except ValueError as error:
            raise NoName(f"{error} in auth_to_local rule {self.text}") from None


@dataclass(frozen=True, slots=True)
class KerberosNames:
    """The rules of a listener, and the default realm."""

    rules: tuple[Rule, ...]
    default_realm: str | None

    def short_name(self, principal: str) -> str:
        """The name of the user for a principal. Raises NoName if no rule applies."""
        name = KerberosName.of(principal)
        if name.realm is None:
            return name.primary
        parameters = (name.realm, name.primary) + (() if name.instance is None else (name.instance,))
        for rule in self.rules:
            user = rule.name(parameters, self.default_realm)
            if user is not None:
                return user
        listed = ", ".join(rule.text for rule in self.rules)
        raise NoName(f"No rules apply to {principal}, rules [{listed}]")


def parse_rules(texts: Iterable[str], default_realm: str | None) -> KerberosNames:
    """Parses the rules of the list. Raises ValueError with Kafka's text if a rule is invalid."""
    return KerberosNames(tuple(_rule(trim(text)) for text in texts), default_realm)


def default_realm(environment: Mapping[str, str], path: str = "/etc/krb5.conf") -> str | None:
    """The default realm in the file that KRB5_CONFIG names, or in `path`. None if there is no such file or entry."""
    for file_name in environment.get("KRB5_CONFIG", path).split(":"):
        try:
            with open(file_name, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        section = re.search(
            r"^\s*\[libdefaults\]\s*$(.*?)(?=^\s*\[|\Z)", text, re.MULTILINE | re.DOTALL | re.ASCII
        )
        entry = section and re.search(r"^\s*default_realm\s*=\s*(\S+)", section[1], re.MULTILINE | re.ASCII)
        if entry:
            return entry[1]
    return None


def _rule(text: str) -> Rule:
    if text == _DEFAULT:
        return Rule(text)
    match = _RULE.match(text)
    end = match.end() if match else len(_DEFAULT) if text.startswith(_DEFAULT) else 0
    if end == 0:
        raise ValueError(f"Invalid rule: {text}")
    if match is None or end != len(text):
        raise ValueError(f"Invalid rule: `{text}`, unmatched substring: `{text[end:]}`")
    try:
        return Rule(
            text,
            parse_int(match["parts"]),
            match["format"],
            None if match["regex"] is None else compile_java(match["regex"]),
            None if match["from"] is None else compile_java(match["from"]),
            match["to"] or "",
            match["all"] is not None,
            match["case"],
        )
    except JavaRegexError as error:
        raise ValueError(f"Invalid rule: {text}: {error}") from None


def _formatted(text: str, parameters: tuple[str, ...]) -> str:
    def parameter(match: re.Match[str]) -> str:
        number = parse_int(match[1])
        if number >= len(parameters):
            raise NoName(
                f"index {number} from {text} is outside of the valid range 0 to {len(parameters) - 1}"
            )
        return parameters[number]

    return _PARAMETER.sub(parameter, text)
