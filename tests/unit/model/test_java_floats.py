"""The texts of `float` and `double`, as Java 17 writes them."""

from __future__ import annotations

import math

import pytest

from kcli.model.java_floats import java_double, java_float, nearest_float

DOUBLES = {
    0.0: "0.0",
    1.0: "1.0",
    -1.5: "-1.5",
    100.0: "100.0",
    0.001: "0.001",
    0.00123: "0.00123",
    1e-05: "1.0E-5",
    9999999.0: "9999999.0",
    1e7: "1.0E7",
    12345678.9: "1.23456789E7",
    1e21: "1.0E21",
    2e23: "1.9999999999999998E23",
    1e23: "9.999999999999999E22",
    8.41e21: "8.409999999999999E21",
    1234567890123456789.0: "1.23456789012345677E18",
    2.1640700000000003e18: "2.16407000000000026E18",
    -6.9077e20: "-6.907699999999999E20",
    3.1526711628916387e25: "3.1526711628916386E25",
    2147483647.0: "2.147483647E9",
    -2.5e-05: "-2.5E-5",
    1e300: "1.0E300",
    1.7976931348623157e308: "1.7976931348623157E308",
    2.2250738585072014e-308: "2.2250738585072014E-308",
    5e-324: "4.9E-324",
    1e-323: "1.0E-323",
    math.inf: "Infinity",
    -math.inf: "-Infinity",
}
FLOATS = {
    0.1: "0.1",
    1.5: "1.5",
    16777216.0: "1.6777216E7",
    3.4028235e38: "3.4028235E38",
    9.843e8: "9.8430003E8",
    3.621e9: "3.62099994E9",
    123456789.0: "1.23456792E8",
    1e10: "1.0E10",
    1.4e-45: "1.4E-45",
    -5.5678684e25: "-5.5678683E25",
}


@pytest.mark.parametrize(("value", "text"), DOUBLES.items())
def test_a_double_has_the_text_of_java(value: float, text: str) -> None:
    assert java_double(value) == text


@pytest.mark.parametrize(("value", "text"), FLOATS.items())
def test_a_float_has_the_text_of_java(value: float, text: str) -> None:
    assert java_float(nearest_float(value)) == text


def test_a_negative_zero_and_nan_have_their_own_texts() -> None:
    assert (java_double(-0.0), java_double(math.nan)) == ("-0.0", "NaN")
    assert (java_float(-0.0), java_float(math.nan), java_float(math.inf)) == ("-0.0", "NaN", "Infinity")


def test_a_double_that_is_too_large_for_a_float_is_infinite() -> None:
    assert nearest_float(3.5e38) == math.inf
    assert nearest_float(-1e300) == -math.inf
