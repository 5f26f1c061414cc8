"""The file of `topics --apply`: what it may say, and where its errors point."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.topics.command import FILE_OF_TOPICS
from kcli.cli.tools.topics.file import read_topics


def _read(
    tmp_path: Path, text: str
) -> dict[str, tuple[int | None, int | None, dict[str, str | None] | None]]:
    path = tmp_path / "topics.yaml"
    path.write_text(text)
    return {
        name: (
            topic.partitions,
            topic.replication_factor,
            None if topic.configs is None else dict(topic.configs),
        )
        for name, topic in read_topics(str(path)).items()
    }


def test_the_example_of_the_man_page(tmp_path: Path) -> None:
    assert _read(tmp_path, FILE_OF_TOPICS) == {
        "orders": (
            6,
            1,
            {"retention.ms": "86400000", "cleanup.policy": "compact,delete", "max.message.bytes": None},
        ),
        "payments": (3, None, None),
    }


def test_anchors_merge_and_settings_keep_their_text(tmp_path: Path) -> None:
    text = """\
topics:
  a: &base
    partitions: 2
    configs: {preallocate: true, min.cleanable.dirty.ratio: 0.50, follower.replication.throttled.replicas: 1:0}
  b:
    <<: *base
    partitions: 3
  c:
  "7": {configs: {}}
"""
    settings = {
        "preallocate": "true",
        "min.cleanable.dirty.ratio": "0.50",
        "follower.replication.throttled.replicas": "1:0",
    }
    assert _read(tmp_path, text) == {
        "a": (2, None, settings),
        "b": (3, None, settings),
        "c": (None, None, None),
        "7": (None, None, {}),
    }
    assert _read(tmp_path, "topics:\n") == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1: the file is empty"),
        ("- a\n", "1: the file must be a mapping of names to values"),
        ("topcs: {}\n", "1: the file has no topcs, only topics. Did you mean topics?"),
        ("topics:\n  a: 3\n", "2: topic a must be a mapping"),
        ("topics:\n  a: {partitions: 3}\n  a: {}\n", "3: a appears twice in topics"),
        ("topics:\n  a:\n    partitons: 3\n", "3: topic a has no partitons, only partitions, "),
        ("topics:\n  a:\n    partitions: six\n", "3: partitions must be a whole number from 1 to 2147483647"),
        ("topics:\n  a:\n    partitions: 0\n", "3: partitions must be"),
        ("topics:\n  a:\n    partitions: [1]\n", "3: partitions must be"),
        ("topics:\n  a:\n    replication-factor: 99999\n", "3: replication-factor must be a whole number from 1 to"),
        ("topics:\n  a:\n    configs:\n      retention: 1\n", "4: Unknown topic config name: retention"),
        ("topics:\n  a:\n    configs:\n      retention.ms: 1d\n", "4: Invalid value 1d for configuration"),
        ("topics:\n  a:\n    configs:\n      cleanup.policy: {a: b}\n", "4: cleanup.policy must be text, a number"),
        ("topics:\n  a: {\n", "3: not YAML: "),
        ("topics:\n  a: *nowhere\n", "2: not YAML: found undefined alias"),
        ("topics:\n  ? [a]\n  : b\n", "2: topics: a name must be text"),
        ("topics: {}\n---\ntopics: {}\n", "2: not YAML: but found another document"),
        ("topics:\n  a: \x01\n", "2: not YAML: special characters are not allowed"),
        ("topics: " + "[" * 3000, ": it is nested too deeply"),
    ],
)  # fmt: skip
def test_errors_name_the_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(CommandError) as caught:
        _read(tmp_path, text)
    message = str(caught.value)
    if complaint.startswith(":"):
        assert complaint in message
    else:
        assert message.startswith(f"{tmp_path / 'topics.yaml'}:{complaint}"), message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"cannot read .*: No such file or directory"):
        read_topics(str(tmp_path / "none.yaml"))
    (tmp_path / "latin.yaml").write_bytes(b"topics:\n  \xe9:\n")
    with pytest.raises(CommandError, match=r"latin\.yaml:2: not UTF-8"):
        read_topics(str(tmp_path / "latin.yaml"))
