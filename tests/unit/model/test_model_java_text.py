"""Text is parsed as by Java's parseInt, parseLong, parseShort, parseDouble, parseBoolean and trim."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from kcli.model import java_text

NO_BREAK_SPACE = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("+7", 7),
        ("-0", 0),
        ("007", 7),
        ("-2147483648", -(2**31)),
        ("\N{ARABIC-INDIC DIGIT THREE}1", 31),
    ],
)
def test_parse_int_takes_a_sign_and_digits_of_any_script(text: str, value: int) -> None:
    assert java_text.parse_int(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "+", "-", "1_0", " 1", "1 ", "0x1", "1.0", "--1", "+-1", "2147483648", "-2147483649", "1" + NO_BREAK_SPACE,
        "\N{SUPERSCRIPT TWO}", "\N{MATHEMATICAL BOLD DIGIT ONE}", "9" * 5000,
    ],
)  # fmt: skip
def test_parse_int_refuses_all_other_texts_with_the_text_of_java(text: str) -> None:
    with pytest.raises(ValueError) as error:
        java_text.parse_int(text)
    assert str(error.value) == f'For input string: "{text}"'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("007", 7), ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("-1", None),
        ("", None), ("+1", None), ("1_0", None), ("\N{ARABIC-INDIC DIGIT THREE}", None), ("9" * 5000, None),
    ],
)  # fmt: skip
def test_a_natural_number_has_ascii_digits_only(text: str, value: int | None) -> None:
    assert java_text.natural(text) == value


def test_parse_int_accepts_thousands_of_leading_zeros() -> None:
    assert java_text.parse_int("0" * 5000 + "12") == 12


@pytest.mark.parametrize(
    ("parse", "least", "most"),
    [
        (java_text.parse_short, -(2**15), 2**15 - 1),
        (java_text.parse_int, -(2**31), 2**31 - 1),
        (java_text.parse_long, -(2**63), 2**63 - 1),
    ],
)
def test_integers_end_at_the_range_of_their_type(parse: Callable[[str], int], least: int, most: int) -> None:
    assert (parse(str(least)), parse(str(most))) == (least, most)
    for outside in (least - 1, most + 1):
        with pytest.raises(ValueError):
            parse(str(outside))


def test_a_short_out_of_range_has_a_text_of_its_own() -> None:
    with pytest.raises(ValueError, match=r'Value out of range\. Value:"40000" Radix:10'):
        java_text.parse_short("40000")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0), (" 0.5\t", 0.5), ("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("1d", 1.0), ("2.5F", 2.5),
        ("Infinity", math.inf), ("-Infinity", -math.inf), ("0x1p3", 8.0), ("0x.8P1d", 1.0), ("0x1p9999", math.inf),
        ("1e999", math.inf), ("\x1f7", 7.0),
    ],
)  # fmt: skip
def test_parse_double_takes_the_forms_of_java(text: str, value: float) -> None:
    assert java_text.parse_double(text) == value


def test_parse_double_takes_nan_only_in_the_spelling_of_java() -> None:
    assert math.isnan(java_text.parse_double("NaN"))
    for text in (
        "nan",
        "inf",
        "infinity",
        "1_0",
        "0.5" + NO_BREAK_SPACE,
        "0x1",
        "1dd",
        "\N{ARABIC-INDIC DIGIT ONE}",
    ):
        with pytest.raises(ValueError, match="For input string"):
            java_text.parse_double(text)
    with pytest.raises(ValueError, match="empty String"):
        java_text.parse_double(" ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.10000000149011612),
        ("1e40f", math.inf),
        (" -1.5d ", -1.5),
        ("0x1p-1", 0.5),
        # The nearest double is halfway between two floats, and the number is more than that.
        ("1.00000005960464477539062500001", 1.0000001192092896),
    ],
)
def test_parse_float_returns_the_nearest_number_of_32_bits(text: str, value: float) -> None:
    assert java_text.parse_float(text) == value


def test_parse_float_keeps_the_sign_of_zero_and_nan() -> None:
    assert math.copysign(1, java_text.parse_float("-0")) == -1
    assert math.isnan(java_text.parse_float("NaN"))
    with pytest.raises(ValueError, match="For input string"):
        java_text.parse_float("1.0x")


def test_a_byte_out_of_range_has_a_text_of_its_own() -> None:
    assert java_text.parse_byte("-128") == -128
    with pytest.raises(ValueError, match=r'Value out of range\. Value:"128" Radix:10'):
        java_text.parse_byte("128")


def test_only_true_in_any_case_is_true() -> None:
    assert [java_text.parse_boolean(text) for text in ("true", "TRUE", " true", "yes", "1", "")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip


def test_trim_removes_control_characters_and_keeps_no_break_spaces() -> None:
    assert java_text.trim(" \t\x1f\0a b\n") == "a b"
    assert java_text.trim(NO_BREAK_SPACE + "a\N{EM SPACE}") == NO_BREAK_SPACE + "a\N{EM SPACE}"


def test_only_white_space_of_ascii_separates_words() -> None:
    assert java_text.split_blanks(f" a\t\nb{NO_BREAK_SPACE}c\x85d \r") == ["a", f"b{NO_BREAK_SPACE}c\x85d"]
    assert java_text.split_blanks(" ") == []


def test_a_list_is_split_at_commas_with_white_space_of_ascii() -> None:
    assert java_text.split_list(" a , b\t,,c ") == ("a", "b", "", "c")
    assert java_text.split_list("  ") == ()
    assert java_text.split_list(f"a,{NO_BREAK_SPACE}b") == ("a", NO_BREAK_SPACE + "b")
