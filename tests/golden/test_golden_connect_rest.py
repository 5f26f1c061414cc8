"""REST stories recorded from Kafka Connect 4.1: workers of kcli give the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs.connect_stories import Replay, Story, stories

ABSENT = "the recordings of Kafka Connect 4.1 are absent"

LONG = ("unassigned",)
"""Stories that wait for a rebalance delay of 15 s. `make full` replays them."""

KNOWN: dict[str, str] = {
    "root/047": "aiohttp refuses methods that it does not know before a route is looked up",
    "root/048": "the same",
    "root/049": "the same",
    "root/050": "the same",
    "create/037": "Java finds an abstract class on its class path, and kcli has no Java classes",
    "validate/018": "MirrorMaker's connectors are not built yet",
    "validate/020": "Java finds a class that is no plugin, and kcli has no Java classes",
    "loggers/016": "Kafka's loggers are those of its loaded classes",
    "loggers/020": "the same",
    "failures/043": "librdkafka's error has the general text, without the name of the topic",
}
"""Steps whose answer differs from the recording, with the reason. A step that no longer differs must be removed."""

UNSTEADY: dict[str, str] = {
    "reset-off/011": "the recorded client asked later, when the task had started",
    "unassigned/011": "which of two workers has which connector depends on their random member ids",
    "unassigned/015": "the same",
    "unassigned/016": "the same",
    "unassigned/017": "the same",
    "unassigned/018": "the same",
    "unassigned/023": "the same",
}
"""Steps that are equal only in some runs."""


def _cases() -> list[object]:
    """The stories. Those that take long are marked."""
    return [
        pytest.param(story, id=story.name, marks=[pytest.mark.full] if story.name in LONG else [])
        for story in stories()
    ]


@pytest.mark.skipif(not stories(), reason=ABSENT)
@pytest.mark.parametrize("story", _cases())
def test_recorded_stories_have_the_same_answers(story: Story, tmp_path: Path) -> None:
    differences = {difference.step.split()[0]: difference for difference in Replay(story, tmp_path).run()}
    expected = {step for step in KNOWN if step.startswith(f"{story.name}/")}
    new = [str(difference) for step, difference in differences.items() if step not in {*KNOWN, *UNSTEADY}]
    assert not new, f"{len(new)} of {len(story.steps)} steps differ:\n" + "\n".join(new)
    assert not expected - differences.keys(), "these steps no longer differ: remove them from KNOWN"
