"""The pages about Kafka Connect in a real browser: connectors, their actions, and the form of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rigs.connect_rest import config_key, validation
from rigs.console_axe import NARROW_AND_DARK, RULES, problems
from rigs.console_dialogs import act
from rigs.console_site import SCRIPT, SINK, Site
from rigs.console_walk import walks

if TYPE_CHECKING:
    from playwright.sync_api import Page


def place(site: Site, *parts: str) -> str:
    """The address of a page about the worker."""
    return "/".join(["#/main/connect", site.connect.url.removeprefix("http://").replace(":", "%3A"), *parts])


@walks(
    "page connect",
    "page connect/*/*",
    "page connect/*/*/offsets",
    "GET /connect",
    "GET /connect/connectors",
    "GET /connect/*/connectors/*",
    "GET /connect/*/connectors/*/offsets",
    "button Pause",
    "button Resume",
    "button Stop",
    "button Restart",
    "button Restart failed tasks",
    "button Reset offsets",
    "button Delete",
    "dialog Reset the offsets of *",
    "dialog * the connector *",
    "POST /connect/*/connectors/*/pause",
    "POST /connect/*/connectors/*/resume",
    "POST /connect/*/connectors/*/stop",
    "POST /connect/*/connectors/*/restart",
    "POST /connect/*/connectors/*/reset-offsets",
    "POST /connect/*/connectors/*/delete",
)
def test_a_connector_is_found_looked_at_and_changed(page: Page, kafka: Site) -> None:
    before = len(kafka.connect.requests)
    page.goto("#/main/connect")
    page.get_by_text(SCRIPT).first.wait_for()
    assert page.locator("img[src=x]").count() == 0
    assert problems(page, RULES) == []
    page.get_by_role("link", name="lake").click()
    page.get_by_text("covers only converters and transformations").wait_for()
    page.locator("summary").click()
    page.get_by_text(f"Caused by: {SCRIPT}").wait_for()
    assert problems(page, RULES) == []
    for button, verb in (
        ("Pause", "Pause"),
        ("Resume", "Resume"),
        ("Stop", "Stop"),
        ("Restart", "Restart"),
        ("Restart failed tasks", "Restart"),
    ):
        page.get_by_role("button", name=button, exact=True).click()
        assert act(page, verb, judges=False).startswith(f"kcli connect {verb.lower()} lake ")
    page.get_by_role("link", name="Offsets").click()
    page.get_by_text('{"n":7}').wait_for()
    for button, verb in (("Reset offsets", "Reset"), ("Delete", "Delete")):
        page.get_by_role("button", name=button, exact=True).click()
        page.get_by_label("Type lake to confirm").fill("lake")
        act(page, verb)
    page.get_by_role("heading", name="Connectors").wait_for()
    assert [line for line, _ in kafka.connect.requests[before:]] == [
        "PUT /connectors/lake/pause",
        "PUT /connectors/lake/resume",
        "PUT /connectors/lake/stop",
        "POST /connectors/lake/restart?includeTasks=true&onlyFailed=false",
        "POST /connectors/lake/restart?includeTasks=true&onlyFailed=true",
        "DELETE /connectors/lake/offsets",
        "DELETE /connectors/lake",
    ]


@walks(
    "page connect/*",
    "page connect/*/*/config",
    "GET /connect/*/plugins",
    "GET /connect/*/connectors/*/config",
    "POST /connect/*/configs",
    "button Save",
    "dialog Save the connector *",
)
def test_a_configuration_is_validated_while_a_person_types(page: Page, kafka: Site) -> None:
    """First for a connector that exists, as a form, and then for a new one, as JSON."""
    validate = f"PUT /connector-plugins/{SINK}/config/validate"
    valid = kafka.connect.answers[validate]
    page.goto(place(kafka, "lake", "config"))
    topics = page.get_by_label("topics (required)")
    assert topics.input_value() == "orders"
    assert (
        page.get_by_label("password (required)").get_attribute("placeholder")
        == "hidden: the stored value stays"
    )
    kafka.connect.answers[validate] = (200, validation(config_key("topics", errors=["no such topic"])))
    topics.fill("nope")
    page.locator(".field .problem").get_by_text("no such topic").wait_for()
    assert problems(page, RULES) == []
    assert page.evaluate("document.activeElement.name") == "topics"  # although the form has other keys now
    kafka.connect.answers[validate] = valid
    topics.fill("orders,bills")
    page.get_by_text("These keys of the connector lake will change: topics.").wait_for()
    page.set_viewport_size({"width": 390, "height": 800})
    assert problems(page, NARROW_AND_DARK) == []
    page.get_by_role("button", name="Save", exact=True).click()
    assert act(page, "Save").startswith("kcli connect apply lake.json")
    stored = {"connector.class": SINK, "topics": "orders,bills", "name": "lake", "password": "s3cret"}
    assert ("PUT /connectors/lake/config", stored) in kafka.connect.requests

    page.goto(place(kafka))
    page.get_by_label("Name", exact=True).fill("new")
    page.get_by_label("Plugin").select_option(SINK)
    page.get_by_label("fast (required)").select_option("true")
    page.get_by_label("View").select_option("json")
    area = page.get_by_label("Configuration as JSON")
    assert area.input_value() == f'{{\n  "connector.class": "{SINK}",\n  "fast": "true"\n}}'
    area.fill("[1]")
    page.get_by_text("This is not JSON: expected an object").wait_for()
    area.fill(f'{{"connector.class": "{SINK}", "topics": "t"}}')
    page.get_by_text("The connector new will be created.").wait_for()
    page.get_by_role("button", name="Save", exact=True).click()
    act(page, "Save")
    page.get_by_role("heading", name="Connector new").wait_for()
    created = {"connector.class": SINK, "topics": "t", "name": "new"}
    assert ("PUT /connectors/new/config", created) in kafka.connect.requests
