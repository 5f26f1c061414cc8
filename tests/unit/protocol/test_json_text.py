from __future__ import annotations

import pytest

from kcli.protocol.records.json_text import dumps


def test_json_is_compact_and_keeps_its_order() -> None:
    assert dumps({"b": [1, None, True], "a": {"é": "日本"}}) == '{"b":[1,null,true],"a":{"é":"日本"}}'


def test_control_characters_are_escaped_in_upper_case() -> None:
    assert dumps('\x00\x1f\n\t"\\/\x7f') == '"\\u0000\\u001F\\n\\t\\"\\\\/\x7f"'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (2097152.0, "2097152.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-123456789.5, "-1.234567895E8"),
        (9.9999999e9, "9.9999999E9"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1e22, "1.0E22"),
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
    ],
)
def test_doubles_are_spelt_as_java_spells_them(value: float, text: str) -> None:
    assert dumps(value) == text
