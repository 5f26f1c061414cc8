"""The story `storage-format` that Kafka 4.1 told, told again here: every byte of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kcli.cli.main import run
from kcli.model.java_order import hash_order, map_order, string_hash

TRANSCRIPTS = Path(__file__).resolve().parents[3] / ".." / "shared" / "golden" / "cli" / "transcripts.jsonl"

pytestmark = pytest.mark.skipif(
    not TRANSCRIPTS.exists(), reason="the recorded transcripts are not beside the checkout"
)

CLUSTER_ID = "JobHCbC_RhuAl0U-TisAzQ"


def story() -> list[dict[str, object]]:
    with TRANSCRIPTS.open() as lines:
        return [step for step in map(json.loads, lines) if step["id"].startswith("storage-format/")]


def scratch(tmp_path: Path) -> Path:
    """A directory whose d2 comes before d1 in Java's hash order, as in the recording."""
    for number in range(100):
        directory = tmp_path / f"s{number}"
        paths = [str(directory / "d1"), str(directory / "d2")]
        if hash_order(paths) == map_order(paths, string_hash, capacity=4) == paths[::-1]:
            directory.mkdir()
            return directory
    raise AssertionError("no such directory")


@pytest.mark.usefixtures("kafkas_script")
def test_the_story_of_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = scratch(tmp_path)

    def filled(text: str) -> str:
        text = text.replace("{DIR}", str(directory)).replace("{PORT}", "19092").replace("{CPORT}", "19093")
        return text.replace("{ID}", CLUSTER_ID)

    steps = story()
    assert len(steps) > 60
    for step in steps:
        if step["action"] == "file":
            Path(filled(str(step["path"]))).write_text(filled(str(step["content"])))
            continue
        argv = step["argv"]
        assert isinstance(argv, list)
        code = run(["storage", *map(filled, argv)])
        captured = capsys.readouterr()
        assert code == step["exit"], (step["id"], captured)
        masks = [re.compile(str(note).partition(": ")[2]) for note in step["volatile"]]  # type: ignore[attr-defined]
        assert masked(captured.out, masks) == masked(filled(str(step["stdout"])), masks), step["id"]
        if step.get("stderr_notes") == ["usage_text_omitted"]:
            # The usage text is our own, and what argparse4j spreads over a line by blanks is said with one.
            words = " ".join(str(step["stderr"]).split())
            assert words in " ".join(captured.err.split()), step["id"]
        else:
            assert captured.err == filled(str(step["stderr"])), step["id"]


def masked(text: str, masks: list[re.Pattern[str]]) -> str:
    for mask in masks:
        text = mask.sub("*", text)
    return text
