"""BigDecimal: its syntax, and its conversions to other numbers."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from kcli.model.java_numbers import (
    decimal_to_double,
    decimal_to_float,
    decimal_to_long,
    to_byte,
    to_int,
    to_short,
)
from kcli.model.java_text import big_decimal


@pytest.mark.parametrize("text", ["1", "+1.50", "-.5", "5.", "1e5", "1E-400", "٣", "0.00", "1e2147483647"])
def test_a_decimal_number_keeps_its_digits(text: str) -> None:
    assert big_decimal(text) == Decimal(text)


@pytest.mark.parametrize(
    "text", ["", "+", ".", "1_0", " 1", "1 ", "NaN", "0x1", "1f", "1e", "1e2147483648", "1e-2147483648"]
)
def test_other_texts_are_no_decimal_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"decimal number|Exponent overflow|Scale out of range"):
        big_decimal(text)


def test_a_decimal_has_no_negative_zero() -> None:
    assert str(big_decimal("-0.0")) == "0.0"
    assert math.copysign(1, decimal_to_double(Decimal("-0.0"))) == 1


def test_a_cast_takes_the_low_bits() -> None:
    assert (to_byte(300), to_short(40000), to_int(2**31)) == (44, -25536, -(2**31))
    assert decimal_to_long(2**63) == -(2**63)
    assert decimal_to_long(Decimal("1e30")) == 10**30 % 2**64 - 2**64 * (10**30 % 2**64 >= 2**63)
    assert decimal_to_long(Decimal("-1.9")) == -1


def test_an_extreme_exponent_takes_no_time() -> None:
    assert decimal_to_long(Decimal("1e999999999")) == 0
    assert decimal_to_long(Decimal("1e-999999999")) == 0
    assert decimal_to_double(Decimal("1e999999999")) == math.inf
    assert decimal_to_double(-(10**400)) == -math.inf


def test_a_float_is_rounded_once() -> None:
    # Halfway between two floats, and a little more, which a double cannot hold.
    just_over = Decimal(2**24 + 1) + Decimal("1e-20")
    assert decimal_to_float(just_over) == 2**24 + 2
    assert decimal_to_float(2**24 + 1) == 2**24
    assert decimal_to_float(2**54 + 2**30 + 1) == 2**54 + 2**31
    # Its double is just under the middle between two floats, and the next double is in the middle.
    middle = 1 + 3 * Decimal(2) ** -24
    just_under = middle - Decimal("2e-16")
    assert decimal_to_float(just_under) == 1 + 2**-23
    assert decimal_to_float(-just_under) == -1 - 2**-23
