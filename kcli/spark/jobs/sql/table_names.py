"""Finds the names of the tables that a query reads, without Spark, so that a dry run can look up their topics.

The names after FROM and JOIN are names of tables, except the names of common table expressions (WITH name AS …),
functions, and the FROM inside functions such as EXTRACT(YEAR FROM at).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?P<quoted>`(?:[^`]|``)*`)|(?P<word>[\w-]+)|(?P<sign>[(),.])",
    re.S,
)

_FUNCTIONS_WITH_FROM = frozenset({"extract", "trim", "substring", "substr", "overlay", "position"})

_NO_TABLE = frozenset({"lateral", "values", "select", "table", "unnest"})
"""Words after FROM or JOIN that are not the name of a table."""

_END_OF_FROM = frozenset(
    {"where", "group", "having", "order", "sort", "cluster", "distribute", "limit", "offset", "window"}
    | {"union", "intersect", "except", "minus", "select", "on", "using", "qualify"}
)
"""Words after which a comma does not separate tables any more."""


def table_names(query: str) -> list[str]:
    """Returns the names of the tables in a query, in their order, each once."""
    tokens = list(_tokens(query))
    defined = set(_defined(tokens))
    names: dict[str, None] = {}
    for name in _read(tokens):
        if name.lower() not in defined:
            names[name] = None
    return list(names)


def _tokens(query: str) -> Iterator[tuple[str, bool]]:
    """Yields each word or sign, and whether it is a name in backquotes. A text in quotes is an empty word."""
    for match in _TOKEN.finditer(query):
        if match["quoted"] is not None:
            yield match["quoted"][1:-1].replace("``", "`"), True
        else:
            yield match["word"] or match["sign"] or "", False


def _defined(tokens: list[tuple[str, bool]]) -> Iterator[str]:
    """Yields the names of common table expressions: NAME AS (, or NAME (columns) AS (."""
    for nth, token in enumerate(tokens[:-1]):
        if token[0].lower() == "as" and not token[1] and tokens[nth + 1] == ("(", False):
            before = nth - 1
            if tokens[before] == (")", False):
                while before > 0 and tokens[before] != ("(", False):
                    before -= 1
                before -= 1
            if before >= 0:
                yield tokens[before][0].lower()


def _read(tokens: list[tuple[str, bool]]) -> Iterator[str]:
    """Yields the names after FROM and JOIN, and after commas between tables."""
    inside: list[bool] = [False]
    """For each open parenthesis, whether the words in it are a list of tables."""
    functions = [""]
    for nth, (word, is_quoted) in enumerate(tokens):
        small = "" if is_quoted else word.lower()
        if small == "(":
            inside.append(False)
            functions.append(tokens[nth - 1][0].lower() if nth else "")
        elif small == ")" and len(inside) > 1:
            inside.pop()
            functions.pop()
        elif small in _END_OF_FROM:
            inside[-1] = False
        is_from = (
            small == "from" and functions[-1] not in _FUNCTIONS_WITH_FROM and not _is_distinct(tokens, nth)
        )
        inside[-1] = inside[-1] or is_from
        if is_from or small == "join" or (small == "," and inside[-1]):
            yield from _name(tokens[nth + 1 :])


def _is_distinct(tokens: list[tuple[str, bool]], nth: int) -> bool:
    """Whether the FROM belongs to IS DISTINCT FROM."""
    return nth > 0 and tokens[nth - 1][0].lower() == "distinct"


def _name(tokens: list[tuple[str, bool]]) -> Iterator[str]:
    """Yields the name at the start of the tokens, with its dots, if it is the name of a table."""
    parts: list[str] = []
    expects = True
    for word, is_quoted in tokens:
        if expects and (is_quoted or (word and word not in "(),." and word.lower() not in _NO_TABLE)):
            parts.append(word)
            expects = False
        elif not expects and (word, is_quoted) == (".", False):
            expects = True
        else:
            is_function = (word, is_quoted) == ("(", False)
            if parts and not expects and not is_function:
                yield ".".join(parts)
            return
    if parts and not expects:
        yield ".".join(parts)
