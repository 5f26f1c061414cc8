"""The tokens of a text in a header: delimiters, and the texts between them."""

from __future__ import annotations

import re

from kcli.model.java_text import trim

# A delimiter, or a text up to the next delimiter. After a backslash, a delimiter is a part of the text.
_TOKEN = re.compile(r'[:,{}\[\]"]|(?:\\.|[^:,{}\[\]"\\])+\\?|\\', re.DOTALL)


def is_blank(token: str) -> bool:
    return not trim(token)


class Tokens:
    """The tokens of a text, with a place to which a reader can go back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.previous = ""
        """The token that `take` has returned last."""
        self._at = 0
        self._ahead: str | None = None

    @property
    def position(self) -> int:
        return self._at

    def mark(self) -> int:
        """The place of the next token."""
        return self._at - len(self._ahead or "")

    def rewind(self, place: int) -> None:
        self._at = place
        self._ahead = None
        self.previous = ""

    def has_next(self) -> bool:
        return self._ahead is not None or self._at < len(self.text)

    def take(self) -> str:
        """The next token, or an empty text at the end."""
        self.previous = self._read() if self._ahead is None else self._ahead
        self._ahead = None
        return self.previous

    def takes(self, expected: str) -> bool:
        """Skips the next token if it is `expected`. Blank tokens before it are skipped in any case."""
        if not self.has_next():
            return False
        token = self._read() if self._ahead is None else self._ahead
        while is_blank(token) and self._at < len(self.text):
            token = self._read()
        matches = trim(token) == expected
        self._ahead = None if matches else token
        return matches

    def take_joined(self, count: int) -> str | None:
        """The next `count` tokens as one text. None if there are fewer tokens."""
        start = self.mark()
        for _ in range(count):
            if not self.has_next():
                self.rewind(start)
                return None
            self.take()
        return self.text[start : self._at]

    def _read(self) -> str:
        match = _TOKEN.match(self.text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[0]
