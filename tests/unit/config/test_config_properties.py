from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.config.properties import Properties, dumps, load, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a \t=  b ", {"a": "b "}),
        ("a = = b", {"a": "= b"}),
        ("a  :b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("  a=b", {"a": "b"}),
        ("# a=b\n! c=d\n   # e=f\n\n \t\n", {}),
        ("a=b # not a comment", {"a": "b # not a comment"}),
        ("a=1\\\n   2\\\n\t3", {"a": "123"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\n# 2", {"a": "1# 2"}),
        ("\\\n# c\na=1", {"a": "1"}),
        ("# comment \\\na=1", {"a": "1"}),
        ("a=1\\", {"a": "1"}),
        ("a\\ b\\=c\\:=d", {"a b=c:": "d"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\ud83d\\ude00", {"a": "é😀"}),
        ("a=x\\uD83D", {"a": "x\ud83d"}),
        ("a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\x85b", {"a": "1\x85b"}),
    ],
)
def test_rules_of_java_properties(text: str, expected: dict[str, str]) -> None:
    assert dict(parse(text)) == expected


def test_every_key_knows_its_line() -> None:
    properties = parse("# head\n\na=1\\\n  2\nb=3\na=4\n", source="/etc/kafka/server.properties")
    assert properties.where("b") == "server.properties:5"
    assert properties.where("a") == "server.properties:6"
    assert properties.where("nothing") == ""
    properties.update_from({"b": "9"}, where="--override")
    assert (properties["b"], properties.where("b")) == ("9", "--override")


def test_a_key_that_is_set_again_is_named_without_its_value() -> None:
    properties = parse("a=secret\nb=1\na=2\n", source="/etc/server.properties")
    assert properties.repeated == (
        "server.properties:3: a is set again; the value at server.properties:1 is ignored",
    )
    merged = Properties()
    merged.update_from(properties, where="")
    merged.update_from({"b": "2"}, where="--override")
    assert merged.repeated == properties.repeated


def test_malformed_escapes_name_file_and_line() -> None:
    with pytest.raises(ConfigError, match=r"Malformed \\uxxxx encoding") as refused:
        parse("a=1\nb=\\u12g4\n", source="x.properties")
    assert refused.value.where == "x.properties:2"


def test_files_are_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_bytes(b"name=J\xf8rgen\n")
    assert dict(load(str(path))) == {"name": "Jørgen"}


def test_repr_shows_no_values() -> None:
    assert "hunter2" not in repr(Properties({"ssl.key.password": "hunter2"}))


NOW = datetime(2026, 11, 21, 8, 25, 6, tzinfo=UTC)


def test_written_as_java_stores_them() -> None:
    meta = {"version": "1", "cluster.id": "MkU3OEVBNTcwNTJENDM2Qg", "node.id": "1", "directory.id": "rBFi"}
    assert dumps(meta, now=NOW) == (
        "#\n#Sat Nov 21 08:25:06 UTC 2026\n"
        "node.id=1\ndirectory.id=rBFi\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
    )


def test_written_values_are_escaped_and_read_back() -> None:
    entries = {"a b": " x y", "c=d": "e:f#g!h\\i\tj\nk"}
    text = dumps(entries, now=NOW, comment="why")
    assert text.startswith("#why\n")
    assert "a\\ b=\\ x y\n" in text
    assert "c\\=d=e\\:f\\#g\\!h\\\\i\\tj\\nk\n" in text
    assert dict(parse(text)) == entries
