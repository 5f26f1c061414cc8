"""Words of the command lines that we show to users. A name in them must never act on anything else."""

from __future__ import annotations

import shlex


def option(name: str, value: str) -> tuple[str, ...]:
    """The words of `--name value`. A value that begins with a dash is written with =, because it looks like an
    option."""
    return (f"--{name}={value}",) if value.startswith("-") else (f"--{name}", value)


def quoted_option(name: str, value: str) -> str:
    """The same for a shell."""
    return shlex.join(option(name, value))


def topic_pattern(name: str) -> str:
    """The regular expression that matches only this topic, for options such as `kcli topics --topic`. The dot is the
    only character of topic names that has a meaning there."""
    return name.replace(".", r"\.")
