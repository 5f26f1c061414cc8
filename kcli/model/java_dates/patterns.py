"""The patterns of Java's SimpleDateFormat, and the English names that they stand for."""

from __future__ import annotations

from dataclasses import dataclass

LETTERS = frozenset("GyMdkHmsSEDFwWahKzZYuXL")
DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
ERAS = ("BC", "AD")
HALF_DAYS = ("AM", "PM")
# A pattern such as yyyyMMdd has fields without a separator. The number of letters is then the number of digits.
_COUNTED = frozenset("ydkHmsSDFwWhKYu")
_ISO_ZONE_LETTERS_MAX = 3


@dataclass(frozen=True, slots=True)
class Piece:
    """A text of a pattern that stands for itself, or `count` equal letters."""

    text: str = ""
    letter: str = ""
    count: int = 0

    @property
    def is_number(self) -> bool:
        """Whether the texts of these letters are numbers."""
        return self.letter in _COUNTED or (self.letter in ("M", "L") and self.count < 3)


def pieces(pattern: str) -> list[Piece]:
    pieces: list[Piece] = []
    at, literal = 0, ""
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            text, at = _quoted(pattern, at)
            literal += text
        elif not (char.isascii() and char.isalpha()):
            literal, at = literal + char, at + 1
        else:
            if char not in LETTERS:
                raise ValueError(f"Illegal pattern character '{char}'")
            end = at + 1
            while pattern[end : end + 1] == char:
                end += 1
            if char == "X" and end - at > _ISO_ZONE_LETTERS_MAX:
                raise ValueError(f"invalid ISO 8601 format: length={end - at}")
            if literal:
                pieces.append(Piece(text=literal))
            pieces.append(Piece(letter=char, count=end - at))
            at, literal = end, ""
    return [*pieces, Piece(text=literal)] if literal else pieces


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """The text of a quotation that begins at `start`, and its end. Two quotes are a quote, inside and outside."""
    if pattern.startswith("''", start):
        return "'", start + 2
    text, at = "", start + 1
    while (end := pattern.find("'", at)) >= 0:
        text += pattern[at:end]
        if not pattern.startswith("''", end):
            return text, end + 1
        text, at = text + "'", end + 2
    raise ValueError("Unterminated quote")
