"""Builds the command lines that kcli shows to users. Users copy these commands. So a name in a command must select only
the resource with this name, even if the option expects a pattern.
"""

from __future__ import annotations

import shlex


def option(name: str, value: str) -> tuple[str, ...]:
    """The words of the option `--name value`. If the value begins with a dash, the result is the one word
    `--name=value`, because such a value looks like an option."""
    return (f"--{name}={value}",) if value.startswith("-") else (f"--{name}", value)


def quoted_option(name: str, value: str) -> str:
    """The words of `option` as text for a command line, with the quotes that a shell needs."""
    return shlex.join(option(name, value))


def topic_pattern(name: str) -> str:
    """The regular expression that matches only this topic, for options such as `kcli topics --topic`. The dot is the
    only character of topic names that is special in regular expressions."""
    return name.replace(".", r"\.")
