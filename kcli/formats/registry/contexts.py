"""Subjects, and the contexts to which they belong.

The subject `:.team:orders-value` is the subject `orders-value` of the context `.team`. A subject without such a prefix
belongs to the default context, whose name is a dot. Each context has its own ids.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
"""The context of configs and modes that apply to all contexts. It has no schemas."""
ALL_CONTEXTS = ":*:"
"""The prefix of a subject in any context."""

_PREFIX = ":."
_RESERVED_NAMES = ("__GLOBAL", "__EMPTY")


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """A subject in its context. A subject with an empty name can also stand for the whole context."""

    context: str
    name: str

    @classmethod
    def of(cls, text: str) -> Subject:
        """Parses a subject, with or without the prefix of its context."""
        if text.startswith(_PREFIX):
            context, _, name = text[1:].partition(":")
            return cls(context, name)
        if text.startswith(ALL_CONTEXTS):
            return cls("*", text.removeprefix(ALL_CONTEXTS))
        return cls(DEFAULT_CONTEXT, text)

    @property
    def prefix(self) -> str:
        """The prefix of the context. It is empty for the default context, and `:.team:` for the context `.team`."""
        return prefix_of(self.context)

    @property
    def text(self) -> str:
        return self.prefix + self.name


def prefix_of(context: str) -> str:
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def context_of(subject: str) -> str:
    return Subject.of(subject).context


def normalized(subject: str) -> str:
    """Returns the only text of a subject, for example `s` for `:.:s`, and `:.team:` for `:.team`."""
    return Subject.of(subject).text


def scope_of(subject: str) -> str | None:
    """Returns the subject or the context to which a config or mode applies. None stands for the default context."""
    return normalized(subject) or None


def beside(parent: str, subject: str) -> str:
    """Returns a subject that a schema of the subject `parent` names. Without a context, it has the parent's context."""
    own = Subject.of(subject)
    return own.text if subject.startswith(_PREFIX) else Subject(context_of(parent), own.name).text


def is_valid(subject: str, *, is_scope: bool = False, allow_empty: bool = True) -> bool:
    """Whether a client may use a subject. `is_scope` is for configs and modes, which may be of the global context."""
    if any(_is_control(character) for character in subject):
        return False
    parsed = Subject.of(subject)
    if parsed.name in _RESERVED_NAMES or not (parsed.name or allow_empty):
        return False
    return is_scope or parsed.context != GLOBAL_CONTEXT


def _is_control(character: str) -> bool:
    return character <= "\x1f" or "\x7f" <= character <= "\x9f"
