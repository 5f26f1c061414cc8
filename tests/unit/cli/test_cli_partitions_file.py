"""Files that list topics and partitions: what each tool says to one that cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.cli.partitions_file import MAX_FILE_BYTES, FileError, read_text, repeated

TOOLS = {
    "delete-records": "--offset-json-file",
    "leader-election": "--election-type preferred --path-to-json-file",
    "reassign-partitions": "--verify --reassignment-json-file",
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"partitions": null}', "The field partitions must be a list of objects, not null"),
        ('{"partitions": {"topic": "a"}}', 'must be a list of objects, not {"topic": "a"}'),
        ('{"partitions": ["a-0"]}', 'must be a list of objects, not ["a-0"]'),
        ('{"partitions": [{}]}', "The field topic of {} must be of type str"),
        ('{"partitions": [{"topic": "a", "partition": true}]}', "must be of type int"),
        ('{"partitions": [{"topic": "a", "partition": 1.0}]}', "must be of type int"),
        ('{"partitions": [{"topic": "a", "partition": "1"}]}', "must be of type int"),
        ('{"partitions": [{"topic": "a", "partition": 2147483648}]}', "must be of type int"),
    ],
)
def test_invalid_entries_are_refused(
    tool: str, text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    assert run([tool, "--bootstrap-server", "127.0.0.1:1", *TOOLS[tool].split(), str(path)]) == 1
    assert complaint in "".join(capsys.readouterr())


def test_a_file_that_is_not_there_or_far_too_long(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"Unable to read file .*/none"):
        read_text(str(tmp_path / "none"))
    long = tmp_path / "long"
    with long.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(FileError, match="larger than"):
        read_text(str(long))


def test_repeated_entries_are_listed_once_in_order() -> None:
    assert repeated(["b", "a", "b", "c", "a", "b"]) == ["b", "a"]
