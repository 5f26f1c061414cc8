"""Parses the value of `sasl.jaas.config`, which has the form `module flag name="value" … ;`."""

from __future__ import annotations

import re

_OPTION = re.compile(r'(?P<name>[\w.$-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s;]+))')
_ESCAPED = re.compile(r"\\(.)")


def login_options(text: str) -> dict[str, str]:
    """The options of a login module by name. If a name occurs twice, the last value counts, as in Java.

    In a quoted value a backslash escapes a quotation mark or a backslash.
    """
    return {
        found["name"]: found["bare"] if found["quoted"] is None else _ESCAPED.sub(r"\1", found["quoted"])
        for found in _OPTION.finditer(text)
    }
