"""Completion for shells: Typer's scripts, and the words that bash has broken.

Bash breaks words at the characters of COMP_WORDBREAKS, such as the colon of host:port and the equals sign of
--topic=orders. It replaces only the last part of a word.
"""

from __future__ import annotations

import os
from pathlib import Path

from typer import _completion_shared as typer_scripts

from kcli.model.java_text import parse_int

SHELLS = ("bash", "zsh", "fish")
BREAKS = (":", "=")
_WORDS, _POSITION = "COMP_WORDS", "COMP_CWORD"
_prefix = ""


def script(shell: str) -> str:
    """Returns the script with which a shell completes `kcli`."""
    return typer_scripts.get_completion_script(prog_name="kcli", complete_var="_KCLI_COMPLETE", shell=shell)


def install(shell: str) -> Path:
    """Installs the script for a shell, and returns its path."""
    installed: Path = typer_scripts.install(shell=shell, prog_name="kcli", complete_var="_KCLI_COMPLETE")[1]
    return installed


def join_words() -> None:
    """Joins the words that bash has broken, in the environment variables that Typer reads."""
    global _prefix
    words = os.environ.get(_WORDS, "").split("\n")
    position = parse_int(os.environ.get(_POSITION) or "0")
    words += [""] * (position + 1 - len(words))
    joined, at, _prefix = joined_words(words, position)
    os.environ[_WORDS], os.environ[_POSITION] = "\n".join(joined), str(at)


def joined_words(words: list[str], position: int) -> tuple[list[str], int, str]:
    """Returns the joined words up to the cursor, the position of the last one, and its part before the last break.

    Bash replaces only the text after this part.
    """
    joined: list[str] = []
    before = ""
    is_open = False  # whether the next word belongs to the last joined word
    for word in words[: position + 1]:
        is_break = bool(word) and all(character in BREAKS for character in word)
        if joined and (is_break or is_open):
            before = joined[-1] + (word if is_break else "")
            joined[-1] += word
        else:
            joined.append(word)
            before = ""
        is_open = is_break
    option, equals, value = joined[-1].partition("=")
    if option.startswith("-") and equals:  # Typer completes the value of an option only as a word of its own
        joined[-1:] = [option, value]
        before = before.partition("=")[2]
    return joined, len(joined) - 1, before


def shown(value: str) -> str:
    """Returns the part of a completion that bash inserts."""
    return value.removeprefix(_prefix)
