"""The operators of filters, on one value at each side. A comparison of two types that cannot be compared is false."""

from __future__ import annotations

from collections.abc import Callable

from kcli.console.messages.filters.errors import FilterSyntaxError
from kcli.console.messages.filters.subjects import COMPARISON_COST, Tree, Work, is_number

Operator = Callable[[Tree, Tree, Work], bool]


def equal(left: Tree, right: Tree, work: Work) -> bool:
    """Whether two values are equal. A number never equals a text or a bool."""
    if is_number(left) and is_number(right):
        return left == right
    if type(left) is not type(right):
        return False
    if isinstance(left, str) and isinstance(right, str):
        work.spend(min(len(left), len(right)))
        return left == right
    return left == right if left is None or isinstance(left, bool) else False


def _ordered(holds: Callable[[int], bool]) -> Operator:
    def compare(left: Tree, right: Tree, work: Work) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            work.spend(min(len(left), len(right)))
            return holds((left > right) - (left < right))
        if is_number(left) and is_number(right):
            return _order_of_numbers(left, right, holds)
        return False

    return compare


def _order_of_numbers(left: Tree, right: Tree, holds: Callable[[int], bool]) -> bool:
    if left != left or right != right:  # one of them is not a number (NaN), which has no order
        return False
    return holds((left > right) - (left < right))  # type: ignore[operator]


def contains(left: Tree, right: Tree, work: Work) -> bool:
    """Whether the text `left` contains the text `right`, or the list `left` has an element that equals `right`."""
    if isinstance(left, list):
        work.spend(COMPARISON_COST * len(left))
        return any(equal(value, right, work) for value in left)
    if isinstance(left, str) and isinstance(right, str):
        work.spend(len(left))
        return right in left
    return False


def starts_with(left: Tree, right: Tree, work: Work) -> bool:
    return isinstance(left, str) and isinstance(right, str) and left.startswith(right)


def ends_with(left: Tree, right: Tree, work: Work) -> bool:
    return isinstance(left, str) and isinstance(right, str) and left.endswith(right)


def not_equal(left: Tree, right: Tree, work: Work) -> bool:
    return not equal(left, right, work)


OPERATORS: dict[str, Operator] = {
    "==": equal,
    "!=": not_equal,
    "<": _ordered(lambda sign: sign < 0),
    "<=": _ordered(lambda sign: sign <= 0),
    ">": _ordered(lambda sign: sign > 0),
    ">=": _ordered(lambda sign: sign >= 0),
    "contains": contains,
    "startsWith": starts_with,
    "endsWith": ends_with,
}
TEXT_OPERATORS = frozenset({"contains", "startsWith", "endsWith", "matches"})


def pattern_matcher(pattern: str, position: int) -> Operator:
    """The operator `matches` for one regular expression of RE2. Raises FilterSyntaxError if the expression is
    invalid."""
    import re2  # imported late, because few filters have regular expressions

    options = re2.Options()
    options.log_errors = False
    try:
        search = re2.compile(pattern, options).search
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise FilterSyntaxError(f"not a regular expression of RE2: {text}", position) from None

    def matches(left: Tree, right: Tree, work: Work) -> bool:
        if not isinstance(left, str):
            return False
        work.spend(len(left))
        return search(left.encode("utf-8", "replace").decode()) is not None

    return matches
