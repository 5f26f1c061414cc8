"""The registry's decisions compared with a slow and simple model, for random orders of registrations and deletions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.formats.registry.contexts import context_of
from kcli.formats.registry.documents import ConfigUpdate, ModeDocument, RegisterRequest, RegisterResponse
from kcli.registry.decisions import schemas
from kcli.registry.decisions.decision import Decision
from kcli.registry.decisions.deletion import delete_subject, delete_version
from kcli.registry.decisions.errors import RegistryError
from kcli.registry.decisions.records import KeyType
from kcli.registry.decisions.registration import register, registered
from kcli.registry.decisions.scopes import set_mode, update_config
from rigs.examples import examples
from rigs.small_schemas import Topic, request, small_language

SUBJECTS = ("s", "t", ":.x:s")
# The last two texts are one schema.
TEXTS = ('{"a":1}', '{"b":1}', '{"a":1,"b":1}', '{"b":1,"a":1}')
Reference = tuple[str, int]


@dataclass
class Version:
    subject: str
    number: int
    id: int
    text: str
    reference: Reference | None
    deleted: bool = False

    @property
    def fields(self) -> object:
        return json.loads(self.text)


@dataclass
class Model:
    """A registry as a list of versions. Every question is answered by looking at all of them."""

    versions: list[Version] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)

    def of(self, subject: str, *, live: bool = False) -> list[Version]:
        return [
            version
            for version in self.versions
            if version.subject == subject and not (live and version.deleted)
        ]

    def register(self, subject: str, text: str, reference: Reference | None) -> object:
        if reference is not None and not any(
            version.number == reference[1] for version in self.of("s", live=True)
        ):
            return 42201
        own, live = self.of(subject), self.of(subject, live=True)
        context = [version for version in self.versions if context_of(version.subject) == context_of(subject)]
        known = [version.id for version in context if (version.text, version.reference) == (text, reference)]
        for version in reversed(live):
            if (version.text, version.reference) == (text, reference):
                return version.id, version.number
        for version in reversed(live):
            # A schema without references is the schema with references if it has all fields in its own text.
            is_inlined = reference is None and version.reference is not None
            is_equal = version.fields == json.loads(text) and (is_inlined or version.reference == reference)
            if is_equal and (not known or version.id in known):
                return version.id, version.number
        if not known:
            self.ids[context_of(subject)] = self.ids.get(context_of(subject), 0) + 1
        new_id = known[0] if known else self.ids[context_of(subject)]
        number = max((version.number for version in own), default=0) + 1
        for version in own:
            if version.deleted and version.id == new_id and not self.referrers(version):
                self.versions.remove(version)
        self.versions.append(Version(subject, number, new_id, text, reference))
        return new_id, number

    def referrers(self, target: Version, *, live: bool = False) -> list[Version]:
        if target.subject != "s":  # only s is referenced in this test
            return []
        return [
            version
            for version in self.versions
            if version.reference == ("s", target.number) and not (live and version.deleted)
        ]

    def delete_version(self, subject: str, number: int, *, permanent: bool) -> object:
        if not self.of(subject):
            return 40401
        found = [version for version in self.of(subject) if version.number == number]
        if not found:
            return 40402
        version = found[0]
        if version.deleted and not permanent:
            return 40406
        if self.referrers(version, live=not permanent):
            return 42206
        if permanent and not version.deleted:
            return 40407
        self._delete(version, permanent=permanent)
        return number

    def delete_subject(self, subject: str, *, permanent: bool) -> object:
        versions = self.of(subject, live=not permanent)
        if not self.of(subject):
            return 40401
        if not versions:
            return 40404
        for version in versions:
            if any(other.subject != subject for other in self.referrers(version, live=not permanent)):
                return 42206
            if permanent and not version.deleted:
                return 40405
        for version in versions:
            self._delete(version, permanent=permanent)
        return tuple(version.number for version in versions)

    def _delete(self, version: Version, *, permanent: bool) -> None:
        version.deleted = True
        if permanent:
            self.versions.remove(version)


@dataclass(frozen=True)
class Step:
    kind: str
    subject: str
    text: str
    number: int
    permanent: bool
    kept: int
    """If a leader stops within a decision, the number of its records that are written."""


STEPS = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(("register", "register", "register", "refer", "version", "subject", "mode")),
        subject=st.sampled_from(SUBJECTS),
        text=st.sampled_from(TEXTS),
        number=st.integers(1, 4),
        permanent=st.booleans(),
        kept=st.integers(0, 3),
    ),
    max_size=25,
)


@pytest.fixture(autouse=True, scope="module")
def _small_languages() -> Iterator[None]:
    with patch.object(schemas, "language_of", small_language):
        yield


def new_topic() -> Topic:
    """A topic of a registry that compares no versions."""
    topic = Topic()
    topic.carry_out(
        update_config(topic.rules, ":.__GLOBAL:", ConfigUpdate.from_json({"compatibility": "NONE"}))
    )
    return topic


def reference_of(step: Step) -> Reference | None:
    """A reference from t to a version of s."""
    return ("s", step.number) if step.kind == "refer" and step.subject == "t" else None


def body_of(step: Step) -> RegisterRequest:
    reference = reference_of(step)
    references = [] if reference is None else [{"name": "n", "subject": "s", "version": reference[1]}]
    return request(step.text, references=references)


def decide(topic: Topic, step: Step) -> Decision[object]:
    match step.kind:
        case "version":
            return delete_version(topic.rules, step.subject, step.number, permanent=step.permanent)
        case "subject":
            return delete_subject(topic.rules, step.subject, permanent=step.permanent)
        case "mode":
            name = "IMPORT" if step.permanent else "READWRITE"
            return set_mode(topic.rules, step.subject, ModeDocument(name), force=bool(step.kept % 2))
        case _:
            return register(topic.rules, step.subject, body_of(step))


def expected(model: Model, step: Step) -> object:
    match step.kind:
        case "version":
            return model.delete_version(step.subject, step.number, permanent=step.permanent)
        case "subject":
            return model.delete_subject(step.subject, permanent=step.permanent)
        case _:
            return model.register(step.subject, step.text, reference_of(step))


def outcome(topic: Topic, step: Step) -> object:
    """The answer of a decision that is carried out, or the code of its error."""
    try:
        answer = topic.carry_out(decide(topic, step))
    except RegistryError as error:
        return error.code
    return (answer.id, answer.version) if isinstance(answer, RegisterResponse) else answer


def check_ids(topic: Topic) -> None:
    """Each id of a context has one schema, and no id is higher than the highest one that the registry knows."""
    found: dict[tuple[str, int], object] = {}
    for subject in topic.state.subjects():
        for version in topic.state.versions(subject):
            place = (context_of(subject), version.id)
            schema = json.loads(version.definition.text)
            assert found.setdefault(place, schema) == schema
            assert version.id <= topic.state.max_id(context_of(subject))
            assert version in list(topic.state.holders(*place))
            assert version in list(topic.state.equal_schemas(context_of(subject), version.digest))


@settings(max_examples=examples(150), deadline=None)
@given(steps=STEPS)
def test_decisions_agree_with_the_model(steps: list[Step]) -> None:
    topic, model = new_topic(), Model()
    for step in steps:
        if step.kind == "mode":
            continue
        assert outcome(topic, step) == expected(model, step)
    versions = [version for subject in topic.state.subjects() for version in topic.state.versions(subject)]
    found = sorted((version.subject, version.version, version.id, version.deleted) for version in versions)
    assert found == sorted(
        (version.subject, version.number, version.id, version.deleted) for version in model.versions
    )
    assert {context: topic.state.max_id(context) for context in model.ids} == model.ids
    check_ids(topic)


@settings(max_examples=examples(100), deadline=None)
@given(steps=STEPS)
def test_a_restarted_registry_continues_where_the_leader_stopped(steps: list[Step]) -> None:
    topic = new_topic()
    for step in steps:
        outcome(topic, step)
    assert topic.restarted().state == topic.state
    compacted = topic.restarted(compacted=True)
    assert {subject: compacted.state.versions(subject) for subject in compacted.state.subjects()} == (
        {subject: topic.state.versions(subject) for subject in topic.state.subjects()}
    )
    assert (compacted.state.configs, compacted.state.modes) == (topic.state.configs, topic.state.modes)


@settings(max_examples=examples(100), deadline=None)
@given(steps=STEPS)
def test_a_leader_that_stops_within_a_decision_leaves_a_valid_state(steps: list[Step]) -> None:
    topic = new_topic()
    for step in steps:
        try:
            decision = decide(topic, step)
        except RegistryError:
            continue
        assert not any(topic.write(*decision.entries[: step.kept]))
        records, topic = topic.records, topic.restarted()
        topic.records = records
        check_ids(topic)


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS)
def test_a_registration_is_answered_again_without_a_record(steps: list[Step]) -> None:
    topic = new_topic()
    for step in steps:
        if step.kind not in ("register", "refer"):
            outcome(topic, step)
            continue
        try:
            first = topic.carry_out(register(topic.rules, step.subject, body_of(step)))
        except RegistryError:
            continue
        again = registered(topic.rules, step.subject, body_of(step))
        assert again is not None
        assert (again.id, again.version) == (first.id, first.version)
        assert register(topic.rules, step.subject, body_of(step)).entries == ()


# Values of any type under the names that records have.
REFERENCES = [{"name": "n", "subject": "s", "version": 1}]
JSON_VALUES = st.sampled_from(
    (
        None,
        True,
        0,
        -1,
        1 << 40,
        1.5,
        "",
        "s",
        ":.x:",
        "READONLY",
        "FULL",
        [],
        ["a"],
        {},
        {"properties": {"a": 1}},
        REFERENCES,
    )
)
KEY_NAMES = ("keytype", "subject", "version", "magic", "context")
OTHER_NAMES = (
    "subject",
    "md5",
    "schemaType",
    "references",
    "metadata",
    "deleted",
    "mode",
    "compatibilityLevel",
    "alias",
)
KEYS = st.fixed_dictionaries(
    {"keytype": st.sampled_from(tuple(KeyType)), "version": st.integers(-1, 3) | JSON_VALUES},
    optional=dict.fromkeys(("subject", "magic", "context"), JSON_VALUES),
) | st.dictionaries(st.sampled_from(KEY_NAMES), JSON_VALUES)
VALUES = st.fixed_dictionaries(
    {"id": st.integers(-1, 3), "schema": st.sampled_from(TEXTS), "version": st.integers(-1, 3)},
    optional=dict.fromkeys(OTHER_NAMES, JSON_VALUES),
) | st.dictionaries(st.sampled_from(("id", "schema", "version", *OTHER_NAMES)), JSON_VALUES)


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


@settings(max_examples=examples(150), deadline=None)
@given(
    records=st.lists(
        st.tuples(
            KEYS.map(encoded) | st.binary(max_size=10),
            st.none() | VALUES.map(encoded) | st.binary(max_size=10),
        ),
        max_size=12,
    )
)
def test_no_record_breaks_the_state(records: list[tuple[bytes, bytes | None]]) -> None:
    topic = Topic()
    for record in records:
        skipped = topic.write(record)[0]
        if skipped is not None and skipped.repair:
            assert topic.write(*skipped.repair) == [None]
        check_ids(topic)
    assert topic.restarted().state == topic.state
