"""Headers that a worker adds to its responses: CORS, and `response.http.headers.config`."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate

from kcli.config.definition import ConfigError
from kcli.http.rest.routing import Call
from kcli.model.java_text import parse_long, trim

_ACTIONS = ("set", "add", "setDate", "addDate")
_ITEM = re.compile(r"(\S+)\s+([^:\s]+)\s*:\s*(.*)", re.DOTALL | re.ASCII)


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """A header of `response.http.headers.config`. A date is in milliseconds since 1970."""

    name: str
    value: str

    @staticmethod
    def parse(text: str) -> Sequence[HeaderRule]:
        """Reads a list such as `set X-Frame-Options:DENY, "add Cache-Control: no-cache, no-store"`."""
        rules = []
        for item in next(csv.reader([text], skipinitialspace=True), []):
            match = _ITEM.fullmatch(trim(item))
            if match is None or match.group(1) not in _ACTIONS:
                raise ConfigError(
                    f"Invalid value {text} for configuration response.http.headers.config: Invalid header action "
                    f"'{trim(item)}'. The action should be one of {', '.join(_ACTIONS)}, followed by name:value",
                    key="response.http.headers.config",
                )
            action, name, value = match.groups()
            if action.endswith("Date"):
                value = formatdate(parse_long(value) / 1000, usegmt=True)
            rules.append(HeaderRule(name, trim(value)))
        return rules


@dataclass(frozen=True, slots=True)
class Cors:
    """`access.control.allow.origin`, `.methods` and `.headers`. No origin means no header at all."""

    origins: Sequence[str] = ()
    methods: Sequence[str] = ()
    allowed_headers: Sequence[str] = ("Content-Type",)

    def headers(self, call: Call) -> Mapping[str, str]:
        if not self.origins:
            return {}
        headers = {"Vary": "Origin"}
        origin = call.headers.get("Origin")
        if origin is None or ("*" not in self.origins and origin not in self.origins):
            return headers
        headers["Access-Control-Allow-Origin"] = origin
        if call.method == "OPTIONS" and "Access-Control-Request-Method" in call.headers:
            methods = self.methods or ("GET", "POST", "HEAD")
            headers["Access-Control-Allow-Methods"] = ",".join(methods)
            headers["Access-Control-Allow-Headers"] = ",".join(self.allowed_headers)
            headers["Access-Control-Max-Age"] = "60"
        return headers


@dataclass(frozen=True, slots=True)
class ResponseHeaders:
    rules: Sequence[HeaderRule] = ()
    cors: Cors = field(default_factory=Cors)

    def __call__(self, call: Call) -> Mapping[str, str]:
        headers = dict(self.cors.headers(call))
        for rule in self.rules:
            headers[rule.name] = rule.value
        return headers
