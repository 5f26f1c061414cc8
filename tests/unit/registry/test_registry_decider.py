"""Which decisions run in the event loop, and which in a thread, because they take too long for the loop."""

from __future__ import annotations

import json
import threading

import pytest

from kcli.client.topic_table.changes import Change
from kcli.formats.registry.documents import RegisterRequest
from kcli.model.topic_partition import TopicPartition
from kcli.registry.decider import QUICK_CHARACTERS_MAX, Decider
from kcli.registry.decisions.configs import Settings
from kcli.registry.decisions.registration import register
from rigs.loops import on_a_loop


def request(schema: object) -> RegisterRequest:
    return RegisterRequest.from_json({"schemaType": "JSON", "schema": json.dumps(schema)})


def union(first: int, members: int = 200) -> object:
    """A schema of about 3,000 characters. A comparison compares each member with each member of the other schema."""
    return {"anyOf": [{"const": number} for number in range(first, first + members)]}


@pytest.fixture
def decider() -> Decider:
    return Decider(Settings())


def write(decider: Decider, subject: str, body: RegisterRequest) -> None:
    decision = register(decider.rules, subject, body)
    for offset, (key, value) in enumerate(decision.entries):
        decider.take(Change(TopicPartition("_schemas", 0), offset, 0, key, value))


@on_a_loop
async def test_a_short_schema_that_takes_long_to_compare_is_compared_in_a_thread(decider: Decider) -> None:
    write(decider, "s", request(union(0)))
    body = request(union(1000))
    assert decider.characters_of("s", body) <= QUICK_CHARACTERS_MAX < decider.comparison_of("s", body)
    loop_thread = threading.current_thread()
    for characters, is_quick in (
        (decider.characters_of("s", body), True),
        (decider.comparison_of("s", body), False),
        (decider.comparison_of("other", body), True),
    ):
        thread = await decider.decide(lambda rules: threading.current_thread(), characters)
        assert (thread is loop_thread) == is_quick
    decider.stop()


def test_usual_schemas_are_compared_in_the_event_loop(decider: Decider) -> None:
    fields = {f"field_{number}": {"type": "string"} for number in range(15)}
    body = request({"type": "object", "properties": fields})
    write(decider, "s", body)
    assert decider.comparison_of("s", body) <= QUICK_CHARACTERS_MAX
