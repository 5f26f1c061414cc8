"""JSON as Jackson reads it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kcli.formats.connect.errors import JavaException
from kcli.formats.connect.json_tree import DEPTH_MAX, DIGITS_MAX, MISSING, read_tree

CORE = "com.fasterxml.jackson.core"


@pytest.mark.parametrize(
    ("data", "tree"),
    [
        (b'{"a":[1,-2.50,true,null,"x"]}', {"a": [1, Decimal("-2.50"), True, None, "x"]}),
        (b"  1 ", 1),
        (b"007", 7),
        (b"[-01.5e2]", [Decimal("-1.5e2")]),
        (b'{"a":1,"b":2,"a":3}', {"a": 3, "b": 2}),
        (b'{"a":1} and more \xff', {"a": 1}),
        (b'"x"y', "x"),
        (b"true]", True),
        (b"[]x", []),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        ('{"é":1}'.encode("utf-16-le"), {"é": 1}),
        ("\ufeff[1]".encode("utf-16-be"), [1]),
        ("[1]".encode("utf-32-be"), [1]),
        ("\ufeff[1]".encode("utf-32-le"), [1]),
        (rb'["\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t"]', ['é😀"\\/\b\f\n\r\t']),
        (rb'"\ud83d"x', "\ud83d"),
        (b'"\xc0\x80\xe0\x80\xaf"', "\0/"),
        (b'"\xed\xa0\x80"', "\ud800"),
        (b'"\xed\xa0\xbd\xed\xb8\x80"', "😀"),
        (b"9" * DIGITS_MAX, 10**DIGITS_MAX - 1),
        (b"0." + b"1" * DIGITS_MAX, Decimal("0." + "1" * DIGITS_MAX)),
        (b"[" * 3 + b"]" * 3, [[[]]]),
        (b'{"a":{"b":{}},"c":[{},{"d":1}]}x', {"a": {"b": {}}, "c": [{}, {"d": 1}]}),
    ],
)
def test_a_tree_is_read(data: bytes, tree: object) -> None:
    assert read_tree(data) == tree


@pytest.mark.parametrize("data", [b"", b" \n\t\r"])
def test_text_without_a_value_has_no_tree(data: bytes) -> None:
    assert read_tree(data) is MISSING


@pytest.mark.parametrize(
    ("data", "java_class"),
    [
        (b"NaN", f"{CORE}.JsonParseException"),
        (b"[-Infinity]", f"{CORE}.JsonParseException"),
        (b"tru", f"{CORE}.JsonParseException"),
        (b"truex", f"{CORE}.JsonParseException"),
        (b"1x", f"{CORE}.JsonParseException"),
        (b"1.", f"{CORE}.JsonParseException"),
        (b"1e", f"{CORE}.io.JsonEOFException"),
        (b"1ex", f"{CORE}.JsonParseException"),
        (b"-", f"{CORE}.io.JsonEOFException"),
        (b"-x", f"{CORE}.JsonParseException"),
        (b"[1 2]", f"{CORE}.JsonParseException"),
        (b"[1,]", f"{CORE}.JsonParseException"),
        (b"[1", f"{CORE}.io.JsonEOFException"),
        (b"[1, ", f"{CORE}.JsonParseException"),
        (b'{"a":1,', f"{CORE}.JsonParseException"),
        (b"{a:1}", f"{CORE}.JsonParseException"),
        (b'{"a"', f"{CORE}.io.JsonEOFException"),
        (b'{"a" 1}', f"{CORE}.JsonParseException"),
        (b'"x', f"{CORE}.io.JsonEOFException"),
        (b'"x\n"', f"{CORE}.JsonParseException"),
        (rb'"\x"', f"{CORE}.JsonParseException"),
        (rb'"\u12"', f"{CORE}.JsonParseException"),
        (rb'"\u12', f"{CORE}.io.JsonEOFException"),
        (b'"\xff"', f"{CORE}.JsonParseException"),
        (b'"\xe9"', f"{CORE}.JsonParseException"),
        (b'"\xe9', f"{CORE}.io.JsonEOFException"),
        (b"\xff", f"{CORE}.JsonParseException"),
        (b"1" * (DIGITS_MAX + 1), f"{CORE}.exc.StreamConstraintsException"),
        (b"[" * (DEPTH_MAX + 1), f"{CORE}.exc.StreamConstraintsException"),
        (b"1e2147483648", "java.lang.NumberFormatException"),
        (b"\0\0\0[\0\0", "java.io.CharConversionException"),
        (b"\0\0[\0", "java.io.CharConversionException"),
    ],
)
def test_invalid_json_has_the_exception_of_jackson(data: bytes, java_class: str) -> None:
    with pytest.raises(JavaException) as caught:
        read_tree(data)
    assert caught.value.java_class == java_class


def test_the_deepest_nesting_is_read() -> None:
    tree = read_tree(b"[" * DEPTH_MAX + b"]" * DEPTH_MAX)
    depth = 0
    while isinstance(tree, list):
        depth, tree = depth + 1, tree[0] if tree else None
    assert depth == DEPTH_MAX
