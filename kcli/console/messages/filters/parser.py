"""Parses a filter, and compiles it to nested functions."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcli.console.messages.filters.errors import FilterSyntaxError
from kcli.console.messages.filters.operators import OPERATORS, TEXT_OPERATORS, Operator, pattern_matcher
from kcli.console.messages.filters.paths import ROOTS_WITH_STEPS, Every, Path, Root, Step
from kcli.console.messages.filters.subjects import COMPARISON_COST, Subject, Tree
from kcli.console.messages.filters.tokens import Token, TokenKind, tokens
from kcli.model.java_text import parse_double, parse_long

MAX_DEPTH = 40
"""The deepest nesting of parentheses and negations."""

Condition = Callable[[Subject], bool]
Values = Callable[[Subject], Sequence[Tree]]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant of the filter."""

    value: Tree


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a whole key, value or header."""

    path: Path


Operand = Literal | Path | Size
_WORDS: dict[str, Tree] = {"true": True, "false": False, "null": None}
_ROOTS = {str(root): root for root in Root}


def parse(text: str) -> Condition:
    """Compiles a filter. Raises FilterSyntaxError."""
    return _Parser(tokens(text)).whole()


class _Parser:
    def __init__(self, token_list: list[Token]) -> None:
        self._tokens = token_list
        self._at = 0
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._either()
        if self._next.kind is not TokenKind.END:
            raise self._error(f"unexpected {self._next.text}")
        return condition

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _error(self, message: str) -> FilterSyntaxError:
        return FilterSyntaxError(message, self._next.position)

    def _takes(self, *texts: str) -> bool:
        """Whether the next token of the filter's text is one of these symbols or words. If so, moves past this
        token."""
        if self._next.kind in (TokenKind.SYMBOL, TokenKind.NAME) and self._next.text in texts:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise self._error(f"expected {text}, not {self._next.text or 'the end'}")

    def _either(self) -> Condition:
        conditions = [self._both()]
        while self._takes("||", "or"):
            conditions.append(self._both())
        return _any_of(conditions)

    def _both(self) -> Condition:
        conditions = [self._negated()]
        while self._takes("&&", "and"):
            conditions.append(self._negated())
        return _all_of(conditions)

    def _negated(self) -> Condition:
        if not self._takes("!", "not"):
            return self._comparison()
        self._enter()
        inner = self._negated()
        self._depth -= 1
        return lambda subject: not inner(subject)

    def _comparison(self) -> Condition:
        if self._takes("("):
            self._enter()
            inner = self._either()
            self._expect(")")
            self._depth -= 1
            return inner
        left = self._operand()
        operator = self._next
        if operator.text == "matches" and operator.kind is TokenKind.NAME:
            self._at += 1
            return self._matches(left)
        if operator.kind in (TokenKind.SYMBOL, TokenKind.NAME) and operator.text in OPERATORS:
            self._at += 1
            right = self._operand()
            return _compared(*self._dates(left, right), operator.text)
        return _is_true(left)

    def _matches(self, left: Operand) -> Condition:
        token = self._next
        if token.kind is not TokenKind.STRING:
            raise self._error("expected a regular expression in quotes after matches")
        self._at += 1
        operator = pattern_matcher(token.text, token.position)
        return _applied(_values_of(left, as_text=True), lambda _: (None,), operator)

    def _operand(self) -> Operand:
        token = self._next
        self._at += token.kind is not TokenKind.END
        match token.kind:
            case TokenKind.STRING:
                return Literal(token.text)
            case TokenKind.NUMBER:
                return Literal(_number(token.text))
            case TokenKind.NAME if token.text in _WORDS:
                return Literal(_WORDS[token.text])
            case TokenKind.NAME if token.text == "size":
                return self._size()
            case TokenKind.NAME if token.text in _ROOTS:
                return self._path(_ROOTS[token.text])
        self._at -= token.kind is not TokenKind.END
        known = ", ".join(_ROOTS)
        raise self._error(f"expected one of {known}, or a text in quotes, not {token.text or 'the end'}")

    def _size(self) -> Size:
        self._expect("(")
        token = self._next
        if token.kind is not TokenKind.NAME or token.text not in ROOTS_WITH_STEPS:
            raise self._error("expected key, value or headers[…] after size(")
        self._at += 1
        path = self._path(Root(token.text))
        if not path.is_whole:
            raise self._error("size() takes a whole key, value or header")
        self._expect(")")
        return Size(path)

    def _path(self, root: Root) -> Path:
        steps: list[Step] = []
        while root in ROOTS_WITH_STEPS and (step := self._step()) is not None:
            steps.append(step)
        if root is Root.HEADERS and not (steps and isinstance(steps[0], str)):
            raise self._error('expected the name of a header, as in headers["name"]')
        return Path(root, tuple(steps))

    def _step(self) -> Step | None:
        if self._takes("."):
            if self._next.kind is not TokenKind.NAME:
                raise self._error('expected a name after the dot; other names are written ["…"]')
            self._at += 1
            return self._tokens[self._at - 1].text
        if not self._takes("["):
            return None
        token = self._next
        if self._takes("*"):
            step: Step = Every()
        elif token.kind is TokenKind.STRING:
            step = token.text
            self._at += 1
        elif token.kind is TokenKind.NUMBER and isinstance(number := _number(token.text), int):
            step = number
            self._at += 1
        else:
            raise self._error("expected a name in quotes, a whole number or * between [ and ]")
        self._expect("]")
        return step

    def _dates(self, left: Operand, right: Operand) -> tuple[Operand, Operand]:
        """Replaces a date that is compared with the timestamp by its milliseconds."""
        if left == Path(Root.TIMESTAMP):
            return left, self._date(right)
        if right == Path(Root.TIMESTAMP):
            return self._date(left), right
        return left, right

    def _date(self, operand: Operand) -> Operand:
        if not isinstance(operand, Literal) or not isinstance(operand.value, str):
            return operand
        try:
            moment = datetime.datetime.fromisoformat(operand.value)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=datetime.UTC)
            return Literal(round(moment.timestamp() * 1000))
        except (ValueError, OverflowError):
            raise self._error(f"not a date: {operand.value}; expected 2026-05-01T12:00:00Z") from None

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"the filter is nested more than {MAX_DEPTH} times")


def _number(text: str) -> int | float:
    """The number of a literal. A whole number that is no long is a double, as in JavaScript."""
    with contextlib.suppress(ValueError):
        return parse_long(text)
    return parse_double(text)


def _any_of(conditions: list[Condition]) -> Condition:
    if len(conditions) == 1:
        return conditions[0]
    return lambda subject: any(condition(subject) for condition in conditions)


def _all_of(conditions: list[Condition]) -> Condition:
    if len(conditions) == 1:
        return conditions[0]
    return lambda subject: all(condition(subject) for condition in conditions)


def _compared(left: Operand, right: Operand, name: str) -> Condition:
    """The comparison of two operands. A whole key or value is compared by its text, except with a number, a bool or a
    path, with which its JSON is compared."""
    by_text = name in TEXT_OPERATORS
    left_values = _values_of(left, as_text=by_text or _is_text(right))
    right_values = _values_of(right, as_text=by_text or _is_text(left))
    if name == "!=":
        is_equal = _applied(left_values, right_values, OPERATORS["=="])
        return lambda subject: not is_equal(subject)
    return _applied(left_values, right_values, OPERATORS[name])


def _is_text(operand: Operand) -> bool:
    """Whether an operand is a text or null. Only such an operand can be equal to the text of a whole key or value."""
    return isinstance(operand, Literal) and (operand.value is None or isinstance(operand.value, str))


def _values_of(operand: Operand, *, as_text: bool) -> Values:
    match operand:
        case Literal(value):
            constant = (value,)
            return lambda _: constant
        case Size(path):
            return path.sizes
        case Path() if as_text and operand.is_whole and operand.root in ROOTS_WITH_STEPS:
            return operand.texts
        case Path():
            return operand.values


def _applied(left: Values, right: Values, operator: Operator) -> Condition:
    def holds(subject: Subject) -> bool:
        lefts, rights = left(subject), right(subject)
        subject.work.spend(COMPARISON_COST * len(lefts) * len(rights))
        return any(operator(value, other, subject.work) for value in lefts for other in rights)

    return holds


def _is_true(operand: Operand) -> Condition:
    values = _values_of(operand, as_text=False)
    return lambda subject: any(value is True for value in values(subject))
