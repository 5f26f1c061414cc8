"""REST stories recorded from Kafka Connect 4.1: workers of kcli give the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs.connect_stories import Replay, Story, stories

ABSENT = "the recordings of Kafka Connect 4.1 are absent"

LONG = ("unassigned",)
"""Stories that wait for a rebalance delay of 15 s. `make full` replays them."""

KNOWN: dict[str, str] = {}
"""Steps whose answer differs from the recording, with the reason. A step that no longer differs must be removed."""


@pytest.mark.skipif(not stories(), reason=ABSENT)
@pytest.mark.parametrize("story", stories(), ids=lambda story: story.name)
def test_recorded_stories_have_the_same_answers(
    story: Story, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    differences = {difference.step.split()[0]: difference for difference in Replay(story, tmp_path).run()}
    known = {step for step in KNOWN if step.startswith(f"{story.name}/")}
    new = [str(difference) for step, difference in differences.items() if step not in known]
    assert not new, f"{len(new)} of {len(story.steps)} steps differ:\n" + "\n".join(new)
    assert not known - differences.keys(), "these steps no longer differ: remove them from KNOWN"
