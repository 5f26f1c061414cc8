"""Java's regular expressions in the syntax of `re` and RE2. The matches of the table come from java.util.regex."""

from __future__ import annotations

import re

import pytest

from kcli.model.code_points import CodePoints
from kcli.model.java_regex import JavaRegexError, compile_java, translate

NAMES = (
    "",
    "a",
    "b",
    "c",
    "d",
    "A",
    "1",
    "ab",
    "ba",
    "aa",
    "abc",
    "a.b",
    "a\r",
    "é",
    "-",
    "&",
    "]",
    "[a",
    "B1",
)


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("[a-z&&[^b]]", ["a", "c", "d"]),
        ("[a-z&&[^bc]&&[^d]]+", ["a", "aa"]),
        ("[a-c&&b-d]", ["b", "c"]),
        ("[\\w&&[^\\d]]", ["a", "b", "c", "d", "A"]),
        ("[a[bc]]+", ["a", "b", "c", "ab", "ba", "aa", "abc"]),
        ("[^a[b]]", ["c", "d", "A", "1", "é", "-", "&", "]"]),
        ("[[^a][^b]]", ["a", "b", "c", "d", "A", "1", "é", "-", "&", "]"]),
        ("[a-c[x-z]&&[bx]]", ["b"]),
        ("[]a]", ["a", "]"]),
        ("[^]a]", ["b", "c", "d", "A", "1", "é", "-", "&"]),
        ("[a&b]", ["a", "b", "&"]),
        ("[a-]", ["a", "-"]),
        ("[a\\-c]", ["a", "c", "-"]),
        ("[\\Q[a\\E]+", ["a", "aa", "[a"]),
        ("\\Qa.b\\E", ["a.b"]),
        ("a.b", ["a.b"]),
        ("a.", ["ab", "aa"]),
        ("(?s)a.", ["ab", "aa", "a\r"]),
        ("(?d)a.", ["ab", "aa", "a\r"]),
        ("(?s:a.)", ["ab", "aa", "a\r"]),
        ("a\\R", ["a\r"]),
        ("a$\\D*", ["a", "a\r"]),
        ("a\\Z\\s?", ["a", "a\r"]),
        ("a\\z", ["a"]),
        ("(?i)a", ["a", "A"]),
        ("(?i:B)\\d?", ["b", "B1"]),
        ("(?i)[a-c&&[^B]]", ["a", "c", "A"]),
        ("(?i)a(?-i)b?", ["a", "A", "ab"]),
        ("\\p{Lower}+", ["a", "b", "c", "d", "ab", "ba", "aa", "abc"]),
        ("\\P{Upper}", ["a", "b", "c", "d", "1", "é", "-", "&", "]"]),
        ("[\\p{Alpha}1]+", ["a", "b", "c", "d", "A", "1", "ab", "ba", "aa", "abc", "B1"]),
        ("\\p{L}", ["a", "b", "c", "d", "A", "é"]),
        ("[^\\p{L}]", ["1", "-", "&", "]"]),
        ("\\pN", ["1"]),
        ("\\p{IsLu}\\d*", ["A", "B1"]),
        ("\\w", ["a", "b", "c", "d", "A", "1"]),
        ("(a)\\1", ["aa"]),
        ("(a)\\11", []),
        ("(?<n>a)\\k<n>", ["aa"]),
        ("(?>a|ab)", ["a"]),
        ("a*+a", []),
        ("[ab]++", ["a", "b", "ab", "ba", "aa"]),
        ("(?!a).", ["b", "c", "d", "A", "1", "é", "-", "&", "]"]),
        ("a(?<=a)b", ["ab"]),
        ("a{2}", ["aa"]),
        ("a{0,1}", ["", "a"]),
        ("\\x61|\\u0062|\\0144", ["a", "b", "d"]),
        ("a|b", ["a", "b"]),
    ],
)
def test_a_pattern_matches_the_names_that_it_matches_in_java(pattern: str, matching: list[str]) -> None:
    compiled = compile_java(pattern)
    assert [name for name in NAMES if compiled.fullmatch(name)] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        "a$",
        "[a-z&&[^b]]*",
        "(?i)ab",
        "a.b",
        "\\p{L}+",
        "(?<n>a)",
        "\\Qa.b\\E",
        "[^\\w]",
        "[a-z&&[^a-z]]",
        "(?s).",
    ],
)
def test_re2_reads_the_translation_too(pattern: str) -> None:
    import re2

    translated = translate(pattern)
    by_re, by_re2 = re.compile(translated, re.ASCII), re2.compile(translated)
    assert [bool(by_re.fullmatch(name)) for name in NAMES] == [bool(by_re2.fullmatch(name)) for name in NAMES]


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "a)",
        "*",
        "a**",
        "[a",
        "[z-a]",
        "[a&&]",
        "{",
        "a{,2}",
        "\\",
        "\\y",
        "\\1",
        "\\p{Nothing}",
        "\\p{IsGreek}",
        "\\p{IsAlphabetic}",
        "(?m)a",
        "(?x)a",
        "(?u)a",
        "(?i)(a)\\1",
        "(?<=a*)b",
        "(?!a)*",
        "^*",
        "\\G",
        "\\X",
        "(?P<n>a)",
        "(?#a)",
        "(" * 101 + ")" * 101,
        "[a-z&&[ab]c]",
        "\\ud800",
        "\\x{110000}",
    ],
)
def test_a_pattern_without_an_exact_translation_is_refused(pattern: str) -> None:
    with pytest.raises(JavaRegexError, match="regular expression"):
        compile_java(pattern)


def test_a_property_is_exact_for_ascii_names() -> None:
    assert compile_java("\\p{IsAlphabetic}+", ascii_only=True).fullmatch("aZ")
    assert not compile_java("\\p{IsDigit}+", ascii_only=True).fullmatch("a")


def test_sets_of_code_points_have_the_operations_of_sets() -> None:
    low, high = CodePoints.of((1, 5), (4, 9)), CodePoints.of((7, 20))
    assert (low | high).ranges == ((1, 20),)
    assert (low & high).ranges == ((7, 9),)
    assert low.negated().negated() == low
    assert not CodePoints.all().negated()
