"""Translates regular expressions of Java (java.util.regex) to the syntax that Python's `re` and RE2 share.

Java has features that both lack, such as nested character classes (`[a-z&&[^b]]`), `\\Q…\\E` and `\\p{Alpha}`. Python
reads some of them as something else, so a rule would silently never match. The translator parses a pattern. It writes
each character class as plain ranges, and each letter under the flag `(?i)` as a class. It refuses a feature that it
cannot translate exactly, with a ValueError.

The result needs no flags. Possessive quantifiers, atomic groups, look-around and back references are left as they are:
Python's `re` knows them, and RE2 refuses them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from kcli.model.code_points import (
    DOT,
    DOT_OF_UNIX,
    ESCAPED_CLASSES,
    LINE_END,
    CodePoints,
    class_named,
    with_both_cases,
)
from kcli.model.java_text import parse_int

_SIMPLE = {"t": 9, "n": 10, "f": 12, "r": 13, "a": 7, "e": 27}
_OPEN = re.compile(
    r"\(\?(?:(?P<kind><?[=!]|[:>])|<(?P<name>[A-Za-z][A-Za-z0-9]*)>|(?P<flags>[a-zA-Z-]*)(?P<end>[:)]))"
)
_UNFINISHED_NAME = re.compile(r"<([A-Za-z][A-Za-z0-9]*)?")
_FLAGS = re.compile(r"[idmsuxU-]*")
_UNCLOSED_COUNT = re.compile(r"[0-9]++(?:,[0-9]*+)?(?!\})")
_NUMBERED_ESCAPES = {"x": "hexadecimal", "u": "Unicode", "0": "octal"}
_QUANTIFIER = re.compile(r"(?:[?*+]|\{[0-9]{1,9}(?:,[0-9]{0,9})?\})[?+]?")
_PROPERTY = re.compile(r"[pP](?:\{([^}]*)\}|(.))", re.DOTALL)
_HEXADECIMAL = re.compile(r"x\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_OCTAL = re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})")
_NAMED_REFERENCE = re.compile(r"k<([A-Za-z][A-Za-z0-9]*)>")
# Python and RE2 have no common name of the end of the text.
_END = f"(?!{CodePoints.all().written()})"
_BOUNDARIES = {
    "b": r"\b",
    "B": r"\B",
    "A": r"\A",
    "z": _END,
    "Z": rf"(?=(?:\r\n|{LINE_END.written()})?{_END})",
}
_WITHOUT_WIDTH = frozenset((*_BOUNDARIES.values(), "^", "$"))
_NOT_SUPPORTED = "not supported"
"""The end of the reason why a pattern has no exact translation."""
_DEPTH_MAX = 100
"""The most groups and classes within each other, which bounds the recursion."""


class JavaRegexError(ValueError):
    """A pattern that is invalid in Java, or that has no exact translation.

    `java_message` is the message of Java's PatternSyntaxException, which shows the place in the pattern. `may_be_valid`
    is True for a pattern that has no exact translation, so Java may accept it.
    """

    def __init__(self, message: str, java_message: str | None = None, *, may_be_valid: bool = False) -> None:
        super().__init__(message)
        self.may_be_valid = may_be_valid
        self.java_message = message if java_message is None else java_message


@dataclass(frozen=True, slots=True)
class _Flags:
    """The flags at a place of the pattern: `(?i)`, `(?s)` and `(?d)`."""

    ignores_case: bool = False
    dot_is_all: bool = False
    unix_lines: bool = False


def translate(pattern: str, *, ascii_only: bool = False) -> str:
    """The pattern in the syntax of Python's `re` and of RE2. Raises JavaRegexError.

    If `ascii_only` is True, the pattern is applied only to ASCII texts, such as names of topics. Then properties such
    as `\\p{IsAlphabetic}` have an exact translation.
    """
    return _Translator(pattern, ascii_only).translated()


def compile_java(pattern: str, *, ascii_only: bool = False) -> re.Pattern[str]:
    """The compiled pattern, for `re`. Its matches may take exponential time. Raises JavaRegexError like `translate`."""
    try:
        return re.compile(translate(pattern, ascii_only=ascii_only), re.ASCII)
    except re.error as error:
        raise JavaRegexError(f"{error}: the regular expression {pattern}") from None


class _Translator:
    def __init__(self, pattern: str, ascii_only: bool) -> None:
        self._pattern = pattern
        self._ascii_only = ascii_only
        self._at = 0
        self._depth = 0
        self._groups = 0
        self._names: set[str] = set()

    def translated(self) -> str:
        text = self._alternatives(_Flags())
        if self._at < len(self._pattern):
            raise self._error("Unmatched closing ')'", back=1)
        return text

    def _error(self, reason: str, *, back: int = 0, java_reason: str | None = None) -> JavaRegexError:
        """An error at the current index. Java reports an index that is sometimes `back` characters before it."""
        index = self._at - back
        place = f" near index {index}" if index >= 0 else ""
        pointer = f"\n{' ' * index}^" if 0 <= index < len(self._pattern) else ""
        return JavaRegexError(
            f"{reason} near index {self._at} of the regular expression {self._pattern}",
            f"{java_reason or reason}{place}\n{self._pattern}{pointer}",
            may_be_valid=reason.endswith(_NOT_SUPPORTED),
        )

    # Reading.

    def _peek(self, ahead: int = 0) -> str:
        return self._pattern[self._at + ahead : self._at + ahead + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise self._error("Unexpected internal error")
        self._at += 1
        return char

    def _takes(self, text: str) -> bool:
        is_next = self._pattern.startswith(text, self._at)
        self._at += len(text) if is_next else 0
        return is_next

    def _matches(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._pattern, self._at)
        self._at = match.end() if match else self._at
        return match

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._error(f"More than {_DEPTH_MAX} groups within each other")

    # Groups and sequences.

    def _alternatives(self, flags: _Flags) -> str:
        """Translates up to the closing bracket of the group, or up to the end."""
        self._enter()
        parts: list[str] = []
        while (char := self._peek()) and char != ")":
            if char == "|":
                parts.append(self._take())
            elif self._takes("\\Q"):
                parts += self._quoted(flags)
            elif char == "(":
                group, flags = self._group(flags)
                parts.append(self._repeated(group) if group else "")
            else:
                parts.append(self._repeated(self._atom(flags)))
        self._depth -= 1
        return "".join(parts)

    def _repeated(self, atom: str) -> str:
        """The atom with the quantifier that follows it."""
        quantifier = self._quantifier()
        if quantifier and (atom in _WITHOUT_WIDTH or atom.startswith(("(?=", "(?!", "(?<=", "(?<!"))):
            # Java and Python disagree about these.
            raise self._error(f"The quantifier {quantifier} of a boundary or look-around is not supported")
        return atom + quantifier

    def _quantifier(self) -> str:
        match = self._matches(_QUANTIFIER)
        if match is not None and self._peek() and self._peek() in "?*+":
            raise self._error(f"Dangling meta character '{self._peek()}'")
        return match[0] if match else ""

    def _quoted(self, flags: _Flags) -> list[str]:
        end = self._pattern.find("\\E", self._at)
        text = self._pattern[self._at :] if end < 0 else self._pattern[self._at : end]
        self._at = len(self._pattern) if end < 0 else end + 2
        letters = [self._literal(ord(char), flags) for char in text]
        return [*letters, self._quantifier()] if letters else []

    def _group(self, flags: _Flags) -> tuple[str, _Flags]:
        """Translates a group. Returns the flags after the group too, because `(?i)` changes them."""
        match = self._matches(_OPEN)
        if match is None:
            if self._takes("(?"):
                raise self._unknown_group()
            self._at += 1
            self._groups += 1
            return self._closed("(", flags), flags
        if match["name"]:
            if match["name"] in self._names:
                raise self._error(f"Named capturing group <{match['name']}> is already defined", back=1)
            self._names.add(match["name"])
            self._groups += 1
            return self._closed(f"(?P<{match['name']}>", flags), flags
        if match["kind"]:
            return self._closed(f"(?{match['kind']}", flags), flags
        inside = self._flagged(match["flags"], flags)
        if match["end"] == ")":
            return "", inside
        return self._closed("(?:", inside), flags

    def _unknown_group(self) -> JavaRegexError:
        """The error of a group, after its opening `(?`."""
        if (match := self._matches(_UNFINISHED_NAME)) is None:
            self._matches(_FLAGS)
            return self._error("Unknown inline modifier")
        if match[1]:
            return self._error("named capturing group is missing trailing '>'")
        return self._error("capturing group name does not start with a Latin letter")

    def _closed(self, opening: str, flags: _Flags) -> str:
        text = opening + self._alternatives(flags)
        if not self._takes(")"):
            raise self._error("Unclosed group")
        return f"{text})"

    def _flagged(self, letters: str, flags: _Flags) -> _Flags:
        on, _, off = letters.partition("-")
        for letter in on + off:
            value = letter not in off
            match letter:
                case "i":
                    flags = replace(flags, ignores_case=value)
                case "s":
                    flags = replace(flags, dot_is_all=value)
                case "d":
                    flags = replace(flags, unix_lines=value)
                case _:
                    # The index of the letter, which is before the end of the flags.
                    back = len(letters) + 1 - letters.index(letter)
                    java_reason = None if letter in "mxuU" else "Unknown inline modifier"
                    raise self._error(
                        f"The flag (?{letter}) is not supported", back=back, java_reason=java_reason
                    )
        return flags

    # Atoms.

    def _atom(self, flags: _Flags) -> str:
        char = self._take()
        match char:
            case "[":
                return self._class(flags).written()
            case ".":
                every = CodePoints.all() if flags.dot_is_all else DOT_OF_UNIX if flags.unix_lines else DOT
                return every.written()
            case "^":
                return char
            case "$":
                # The end of a pattern is the end of the name, since it matches the whole name. RE2 has no look-ahead.
                return char if self._peek() in ("", "|", ")") else _BOUNDARIES["Z"]
            case "\\":
                return self._escape(flags)
            case "?" | "*" | "+":
                self._at -= 1
                raise self._error(f"Dangling meta character '{char}'")
            case "{":
                raise self._repetition_error()
            case _:
                return self._literal(ord(char), flags)

    def _repetition_error(self) -> JavaRegexError:
        """The error of a `{` that begins no count."""
        unclosed = self._matches(_UNCLOSED_COUNT)
        return self._error("Illegal repetition" if unclosed is None else "Unclosed counted closure")

    def _escape(self, flags: _Flags) -> str:
        """Translates an escape outside of classes, after its backslash."""
        char = self._peek()
        if char in _BOUNDARIES:
            self._at += 1
            return _BOUNDARIES[char]
        if self._takes("R"):
            return f"(?:\\r\\n|{LINE_END.written()})"
        if match := self._matches(_NAMED_REFERENCE):
            if match[1] not in self._names:
                raise self._error(f"named capturing group <{match[1]}> does not exist", back=1)
            return self._reference(f"(?P={match[1]})", flags)
        if char and char in "123456789":
            return self._numbered(flags)
        return self._cased(self._escaped_class(flags), flags)

    def _numbered(self, flags: _Flags) -> str:
        """A reference to a group. As in Java, it takes only as many digits as give the number of a group before it."""
        number = parse_int(self._take())
        if number > self._groups:
            raise self._error(f"There is no group {number} before its reference")
        while (
            (char := self._peek()) and char in "0123456789" and number * 10 + parse_int(char) <= self._groups
        ):
            number = number * 10 + parse_int(self._take())
        return self._reference(f"(?:\\{number})", flags)

    def _reference(self, text: str, flags: _Flags) -> str:
        if flags.ignores_case:
            raise self._error("A reference to a group under the flag (?i) is not supported")
        return text

    def _literal(self, code: int, flags: _Flags) -> str:
        return self._cased(CodePoints.of((code, code)), flags)

    def _cased(self, points: CodePoints, flags: _Flags) -> str:
        return (with_both_cases(points) if flags.ignores_case else points).written()

    def _escaped_class(self, flags: _Flags) -> CodePoints:
        """The characters of an escape, inside or outside of classes, after its backslash."""
        if (match := self._matches(_PROPERTY)) is not None:
            return self._property(match, flags)
        if self._peek() and self._peek() in ESCAPED_CLASSES:
            return ESCAPED_CLASSES[self._take()]
        code = self._escaped_character()
        return CodePoints.of((code, code))

    def _property(self, match: re.Match[str], flags: _Flags) -> CodePoints:
        name = match[1] if match[1] is not None else match[2]
        points = class_named(name, ascii_only=self._ascii_only)
        if points is None:
            java_reason = f"Unknown character property name {{{name}}}"
            raise self._error(
                f"The property {{{name}}} is unknown or not supported", back=1, java_reason=java_reason
            )
        if flags.ignores_case:
            points = with_both_cases(points)
        return points.negated() if match[0][0] == "P" else points

    def _escaped_character(self) -> int:
        if match := self._matches(_OCTAL):
            return int(match[1], 8)
        if match := self._matches(_HEXADECIMAL):
            code = int(match[1] or match[2] or match[3], 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise self._error("The code point is not supported")
            return code
        char = self._take()
        if char in _SIMPLE:
            return _SIMPLE[char]
        if char == "c":
            return ord(self._take()) ^ 64
        if char.isascii() and char.isalnum():
            if char in _NUMBERED_ESCAPES:
                raise self._error(f"Illegal {_NUMBERED_ESCAPES[char]} escape sequence")
            java_reason = "Illegal/unsupported escape sequence"
            raise self._error(
                f"Illegal or unsupported escape sequence \\{char}", back=1, java_reason=java_reason
            )
        return ord(char)

    # Classes.

    def _class(self, flags: _Flags) -> CodePoints:
        """The characters of a class, after its opening bracket."""
        self._enter()
        negated = self._takes("^")
        points = self._operand(flags, is_first=True)
        while self._takes("&&"):
            points = points & self._operand(flags, is_first=False)
        if not self._takes("]"):
            raise self._error("Unclosed character class", back=1)
        self._depth -= 1
        return points.negated() if negated else points

    def _operand(self, flags: _Flags, *, is_first: bool) -> CodePoints:
        """The union of the characters and nested classes up to && or the closing bracket."""
        points, nested, plain = CodePoints(), 0, 0
        while char := self._peek():
            if char == "]" and (points or nested or plain or not is_first):
                break
            if self._pattern.startswith("&&", self._at):
                break
            if self._takes("["):
                points, nested = points | self._class(flags), nested + 1
            elif self._takes("\\Q"):
                end = self._pattern.find("\\E", self._at)
                if end < 0:
                    raise self._error("Unclosed character class", back=1)
                codes = map(ord, self._pattern[self._at : end])
                points, plain = (
                    points | self._both(CodePoints.of(*((code, code) for code in codes)), flags),
                    plain + 1,
                )
                self._at = end + 2
            else:
                points, plain = points | self._both(self._range(flags), flags), plain + 1
        if not self._peek():
            raise self._error("Unclosed character class", back=1)
        if not nested and not plain:
            raise self._error("Bad class syntax")
        if not is_first and nested and plain:
            # Java takes only the last of these for the right side of &&.
            raise self._error("After &&, a mixture of characters and nested classes is not supported")
        return points

    def _both(self, points: CodePoints, flags: _Flags) -> CodePoints:
        return with_both_cases(points) if flags.ignores_case else points

    def _range(self, flags: _Flags) -> CodePoints:
        if self._takes("\\"):
            first = self._escaped_class(flags)
            if first.single is None:
                return first
            low = first.single
        else:
            low = ord(self._take())
        if self._peek() != "-" or self._peek(1) in ("]", "[", ""):
            return CodePoints.of((low, low))
        self._at += 1
        high = self._escaped_character() if self._takes("\\") else ord(self._take())
        if high < low:
            raise self._error("Illegal character range", back=1)
        return CodePoints.of((low, high))
