"""Names of tables, and how a database quotes names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcli.formats.connect.errors import ConnectException

_PLAIN_CHARACTERS = "_$#@"
"""What a name without quotes may have beside letters and digits, in any of the databases."""


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table. `str()` quotes all its parts, as Java shows it in error texts."""

    catalog: str | None
    schema: str | None
    name: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in (self.catalog, self.schema, self.name) if part)

    @property
    def unquoted(self) -> str:
        """The fully qualified name, as in the offsets of source partitions."""
        return ".".join(self.parts)

    def __str__(self) -> str:
        return ".".join(f'"{part}"' for part in self.parts)


@dataclass(frozen=True, slots=True)
class Quoting:
    """The quotes of a database, and whether statements use them (quote.sql.identifiers)."""

    begin: str
    end: str
    always: bool = True

    def quote(self, name: str) -> str:
        """The name in a statement. A quote within the name is doubled, so that it cannot end the name.

        Raises ConnectException for a name that cannot be in a statement.
        """
        if "\0" in name:
            raise ConnectException(f"The name {name!r} has a null character, which no database allows")
        if self.always:
            return self.begin + name.replace(self.end, self.end * 2) + self.end
        # The name may come from a record, which must not add anything else to a statement.
        if not all(character.isalnum() or character in _PLAIN_CHARACTERS for character in name):
            raise ConnectException(f"The name {name!r} needs quotes: set quote.sql.identifiers=always")
        return name

    def table(self, table: TableName) -> str:
        return ".".join(map(self.quote, table.parts))

    def names(self, names: Iterable[str]) -> str:
        return ",".join(map(self.quote, names))

    def parse(self, text: str) -> TableName:
        """Reads a name with up to three parts. Raises ConnectException if the text is no name."""
        return _table(self._split(text, ".") if text else [], text)

    def parse_list(self, text: str) -> list[TableName]:
        """Reads names between commas."""
        return [self.parse(item) for item in self._pieces(text, ",")] if text else []

    def _split(self, text: str, separator: str) -> list[str]:
        return [self._unquoted(piece) for piece in self._pieces(text, separator)]

    def _unquoted(self, piece: str) -> str:
        if piece.startswith(self.begin) and piece.endswith(self.end) and len(piece) > 1:
            return piece[1:-1].replace(self.end * 2, self.end)
        return piece

    def _pieces(self, text: str, separator: str) -> list[str]:
        """The parts of a text between separators that stand outside quotes."""
        pieces, start, at = [], 0, 0
        while at < len(text):
            if text[at] == self.begin and (at == start or text[at - 1] == "."):
                at = self._end_of_quoted(text, at + 1)
            elif text[at] == separator:
                pieces.append(text[start:at])
                start = at = at + 1
            else:
                at += 1
        return [*pieces, text[start:]]

    def _end_of_quoted(self, text: str, at: int) -> int:
        while True:
            at = text.find(self.end, at)
            if at < 0:
                raise ConnectException(
                    f"Failure parsing fully qualified identifier; missing trailing quote in {text}"
                )
            if not text.startswith(self.end, at + 1):
                return at + 1
            at += 2


def _table(parts: list[str], text: str) -> TableName:
    match parts:
        case [name] if name:
            return TableName(None, None, name)
        case [schema, name] if name:
            return TableName(None, schema, name)
        case [catalog, schema, name] if name:
            return TableName(catalog, schema, name)
        case _:
            raise ConnectException(f"Invalid fully qualified name: '{text}'")
