"""The pages about schemas in a real browser: subjects, versions, differences, and a version that a person types."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kcli.formats.registry.framing import id_prefix
from rigs.console_axe import NARROW_AND_DARK, RULES, problems
from rigs.console_dialogs import act
from rigs.console_site import SCRIPT, Site
from rigs.console_topics import create, produce, record
from rigs.console_walk import walks

if TYPE_CHECKING:
    from playwright.sync_api import Page


@walks(
    "page schemas",
    "page schemas/*",
    "page schemas/*/diff",
    "GET /schemas",
    "GET /schemas/subjects",
    "GET /schemas/subjects/*",
    "GET /schemas/subjects/*/versions/*",
    "GET /schemas/subjects/*/diff",
    "GET /schemas/ids/*",
)
def test_a_subject_is_found_with_its_versions_and_their_differences(page: Page, kafka: Site) -> None:
    page.goto("#/main/schemas")
    page.get_by_text(SCRIPT).first.wait_for()
    assert page.locator("img[src=x]").count() == 0
    assert problems(page, RULES) == []
    page.get_by_role("link", name=SCRIPT).click()
    page.locator(".schema-text").get_by_text(f'"title": "{SCRIPT}"').wait_for()
    assert page.locator("img[src=x]").count() == 0
    page.goto("#/main/schemas")
    page.get_by_label("Search subjects").fill("lists")
    page.get_by_role("link", name="lists/value").click()
    page.get_by_role("link", name="orders-value").click()
    page.get_by_text("Version 1", exact=True).wait_for()
    page.get_by_label("Version", exact=True).select_option("2")
    page.locator(".schema-text").get_by_text('"name": "note"').wait_for()
    assert problems(page, RULES) == []
    page.get_by_role("link", name="Differences").click()
    page.locator(".diff .added").get_by_text('"name": "note"').wait_for()
    assert problems(page, RULES) == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert problems(page, NARROW_AND_DARK) == []
    page.get_by_label("Older version").select_option("2")
    page.get_by_text("The versions 2 and 2 are equal.").wait_for()
    page.goto("#/main/schemas?id=1")
    page.locator(".schema-text").get_by_text('"name": "id"').wait_for()


@walks(
    "page schemas/*/new",
    "button New subject",
    "button Register",
    "dialog Register a version of *",
    "POST /schemas/subjects/*/versions",
)
def test_a_schema_is_checked_while_a_person_types(
    page: Page, kafka: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'x' at path '/fields/2' in the new "
        "schema has no default value and is missing in the old schema', additionalInfo:'x'}"
    )
    monkeypatch.setattr(kafka.registry, "check", {"is_compatible": False, "messages": [message]})
    page.goto("#/main/schemas/orders-value/new")
    area, register = page.get_by_label("Schema", exact=True), page.get_by_role("button", name="Register")
    area.fill(kafka.registry.subjects["orders-value"][1]["schema"])
    page.get_by_text("Version 2 of orders-value has this schema already.").wait_for()
    assert register.is_disabled()
    area.fill('{"type":"record","name":"Order","fields":[]}')
    page.get_by_text("consumers with the new schema cannot read records").wait_for()
    page.get_by_text("Give the new field a default.").wait_for()
    assert register.is_disabled()
    assert problems(page, RULES) == []
    monkeypatch.setattr(kafka.registry, "check", {"is_compatible": True})
    page.goto("#/main/schemas")
    page.get_by_label("Name of a new subject").fill("made/here")
    page.get_by_role("button", name="New subject").click()
    page.get_by_text("The registry does not have this subject yet.").wait_for()
    page.get_by_label("Type", exact=True).select_option("JSON")
    area.fill('{"type":"string"}')
    page.get_by_text("The schema is compatible with made/here").wait_for()
    register.click()
    assert act(page, "Register").startswith(
        "kcli schemas put schema.json --subject made/here --registry http"
    )
    page.get_by_role("heading", name="made/here").wait_for()
    [schema] = kafka.registry.subjects.pop("made/here")
    assert (schema["schemaType"], json.loads(schema["schema"])) == ("JSON", {"type": "string"})


def test_a_record_links_to_its_schema(page: Page, kafka: Site) -> None:
    value = id_prefix(kafka.registry.subjects["orders-value"][0]["id"]) + b"\x0e"
    kafka.run(create(kafka.client, "with-schema"))
    kafka.run(produce(kafka.client, "with-schema", [record(0, value=value)]))
    page.goto("#/main/messages/with-schema/0/0")
    page.get_by_role("link", name="Schema 1").click()
    page.locator(".schema-text").get_by_text('"name": "Order"').wait_for()
    assert page.locator("dialog[open]").count() == 0
    kafka.run(kafka.client.delete_topics(["with-schema"]))
