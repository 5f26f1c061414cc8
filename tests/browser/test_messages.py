"""The page of records in a real browser: search, filters, live tail, one record, sending, deleting, analysis."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import pytest

from rigs.console_axe import judge
from rigs.console_dialogs import act
from rigs.console_site import SCRIPT, TRACE, Site
from rigs.console_topics import record
from rigs.console_walk import walks

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def opened(page: Page, topic: str, view: str = "", **query: str) -> None:
    """Opens the page of a topic's records, and waits for the end of the first search."""
    search = "&".join(f"{name}={value}" for name, value in query.items())
    page.goto(f"#/main/messages/{topic}{view}{'?' if search else ''}{search}")
    if not view:
        searched(page)


def searched(page: Page) -> None:
    page.get_by_role("status").filter(has_text="Searched").wait_for()


def rows(page: Page) -> Locator:
    return page.locator("tr.record")


def search(page: Page, **fields: str) -> None:
    for label, value in fields.items():
        page.get_by_label(label, exact=True).fill(value)
    page.get_by_role("button", name="Search").click()
    searched(page)


@pytest.fixture
def topic(kafka: Site) -> str:
    """A topic of its own, with ten records."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    kafka.topic(name, 2)
    kafka.send(name, *(record(n) for n in range(10)))
    return name


@walks("button More", "button Search")
def test_the_newest_records_come_first_and_a_filter_chooses(page: Page) -> None:
    opened(page, "orders", limit="50")
    assert rows(page).count() == 50
    page.get_by_role("button", name="More").click()
    page.get_by_text("60 records. Searched").wait_for()
    assert rows(page).count() == 60
    search(page, Filter="value.order.amount > 57 && partition != 1")
    page.get_by_text("2 records. Searched").wait_for()
    assert sorted(rows(page).locator(".record-cell").all_inner_texts()) == [
        '{"order": {"id": 57, "amount": 57.5}}',
        '{"order": {"id": 59, "amount": 59.5}}',
    ]
    # The address has the search, so it can be sent to others.
    page.reload()
    page.get_by_text("2 records. Searched").wait_for()


def test_a_wrong_filter_says_where_the_mistake_is(page: Page) -> None:
    opened(page, "orders")
    page.get_by_label("Filter", exact=True).fill("value.a = 5")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("alert").filter(has_text="equality is == (at character 9)").wait_for()


def test_offset_time_and_partition_choose_the_beginning(page: Page) -> None:
    opened(page, "orders")
    page.get_by_label("Begin").select_option("offset")
    search(page, Offset="18", Partitions="1")
    page.get_by_text("2 records. Searched").wait_for()
    page.get_by_label("Begin").select_option("time")
    search(page, Time="2100-01-01T00:00:00", Partitions="")
    page.get_by_text("There are no records here.").wait_for()


@walks(
    "GET /topics/*/messages/record",
    "GET /topics/*/messages/raw",
    "button Record at offset * of partition *",
    "page messages/*/*/*",
    "button Copy the link",
    "dialog Record *:*",
)
def test_a_record_shows_everything_in_each_format(page: Page) -> None:
    opened(page, "orders", start="offset", value="0", partitions="0")
    page.get_by_role("button", name="Record at offset 3 of partition 0").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text('"amount"').wait_for()
    judge(page)
    assert '"id": 9' in dialog.get_by_role("region", name="Content of the value").inner_text()
    dialog.get_by_label("Format of the value").select_option("hex")
    dialog.get_by_text("00000000  7b 22 6f").wait_for()
    with page.expect_download() as download:
        dialog.get_by_label("Download the bytes of the value").click()
    assert download.value.path().read_bytes() == b'{"order": {"id": 9, "amount": 9.5}}'
    dialog.get_by_role("button", name="Copy the link").click()
    page.get_by_text("Copied.").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.goto("#/main/topics")
    page.goto(link)
    assert '"id": 9' in dialog.get_by_role("region", name="Content of the value").inner_text()


@walks("GET /topics/*/messages/download", "GET /messages/filter", "button Download")
def test_a_download_has_the_matching_records(page: Page) -> None:
    opened(page, "orders", start="earliest")
    page.get_by_label("Filter", exact=True).fill("value.order.id < 3")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert len(download.value.path().read_text().splitlines()) == 3


@walks("POST /topics/*/messages/send", "button Send a record", "dialog Send a record to *")
def test_a_record_is_sent_with_a_preview_and_then_seen(page: Page, topic: str) -> None:
    opened(page, topic)
    page.get_by_role("button", name="Send a record").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Key", exact=True).select_option("text")
    dialog.get_by_label("Text of the key").fill("my key")
    dialog.get_by_label("Value", exact=True).select_option("json")
    dialog.get_by_label("Text of the value").fill('{"broken": ')
    dialog.get_by_label("Headers").fill("source: browser test\nflag")
    dialog.get_by_label("Partition").fill("1")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_role("alert").filter(has_text="the value is not JSON").wait_for()
    dialog.get_by_label("Text of the value").fill('{"sent": true}')
    assert "kcli console-producer" in act(page, "Send")
    page.get_by_text(f"Sent a record with 20 bytes to {topic}-1 at offset 0.").wait_for()
    search(page, Filter='headers.source == "browser test" && headers.flag == null && value.sent')
    page.get_by_text("1 record. Searched").wait_for()
    assert rows(page).locator(".record-key").inner_text() == "my key"


@walks("POST /topics/*/messages/resend", "button Send again", "dialog Send record *:* again")
def test_a_record_is_sent_again_to_another_topic_with_an_edit(page: Page, kafka: Site, topic: str) -> None:
    kafka.topic(f"{topic}-copy")
    opened(page, topic, start="offset", value="4", partitions="0")
    page.get_by_role("button", name="Record at offset 4 of partition 0").click()
    page.get_by_role("button", name="Send again").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("To topic").fill(f"{topic}-copy")
    dialog.get_by_label("The value").fill('{"n": "edited"}')
    assert "kcli console-producer" in act(page, "Send")
    page.get_by_text(f"to {topic}-copy-0 at offset 0.").wait_for()
    opened(page, f"{topic}-copy")
    assert rows(page).locator(".record-key").inner_text() == "k4"
    assert rows(page).locator(".record-cell").inner_text() == '{"n": "edited"}'


@walks("POST /topics/*/messages/delete", "button Delete records")
def test_records_are_deleted_after_a_preview_and_the_name_of_the_topic(page: Page, topic: str) -> None:
    opened(page, topic)
    page.get_by_role("button", name="Delete records").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Delete the records before offset").fill("7")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_text("This deletes up to 7 records").wait_for()
    assert "kcli delete-records" in dialog.locator(".command").inner_text()
    act = dialog.get_by_role("button", name="Delete", exact=True)
    assert act.is_disabled()
    dialog.get_by_label(f"Type {topic} to confirm").fill(topic)
    act.click()
    page.get_by_text("3 records. Searched").wait_for()


@walks("button Delete up to here", "button Copy the *", "dialog Delete records of *")
def test_a_record_leads_to_the_records_before_it_and_its_value_is_copied(page: Page, topic: str) -> None:
    opened(page, topic, start="offset", value="4", partitions="0")
    page.get_by_role("button", name="Record at offset 4 of partition 0").click()
    page.get_by_role("button", name="Copy the value").click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText().then(JSON.parse)") == {"n": 4}
    page.get_by_role("button", name="Delete up to here").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_label("Delete the records before offset").input_value() == "5"
    dialog.get_by_role("textbox", name="Type").fill(topic)
    assert "kcli delete-records" in act(page, "Delete")
    page.get_by_text("5 records. Searched").wait_for()


@walks("button Help about filters", "button Command line", "dialog Filters", "dialog On the command line")
def test_the_help_about_filters_fills_the_filter_and_the_command_line_is_shown(page: Page) -> None:
    opened(page, "orders")
    page.get_by_role("button", name="Help about filters").click()
    judge(page)
    page.get_by_role("dialog").get_by_role("button", name='value contains "timeout"').click()
    assert page.get_by_label("Filter", exact=True).input_value() == 'value contains "timeout"'
    search(page)
    page.get_by_text("No record matches.").wait_for()
    page.get_by_role("button", name="Command line").click()
    page.get_by_role("dialog").get_by_text("kcli console-consumer").wait_for()
    page.get_by_role("dialog").get_by_text("--where 'value contains \"timeout\"'").wait_for()
    judge(page)
    page.set_viewport_size({"width": 390, "height": 800})
    option = page.locator(".command span").filter(has_text="--bootstrap-server")
    assert option.evaluate("each => each.offsetHeight < 25"), "no line breaks within an option"


@walks("button Saved filters", "button Save the filter", "button Remove the filter *", "dialog Saved filters")
def test_a_filter_is_saved_under_a_name_and_used_again(page: Page) -> None:
    opened(page, "orders")
    search(page, Filter="value.order.id == 7")
    page.get_by_role("button", name="Saved filters").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("No filter is saved").wait_for()
    dialog.get_by_label("Name").fill(SCRIPT)
    dialog.get_by_role("button", name="Save the filter").click()
    dialog.get_by_role("cell", name="value.order.id == 7").wait_for()
    judge(page)
    opened(page, "traced")
    page.get_by_role("button", name="Saved filters").click()
    dialog.get_by_text("Write a filter first").wait_for()
    dialog.get_by_role("button", name=SCRIPT, exact=True).click()
    assert page.get_by_label("Filter", exact=True).input_value() == "value.order.id == 7"
    page.get_by_role("button", name="Saved filters").click()
    dialog.get_by_role("button", name="Remove the filter").click()
    dialog.get_by_text("No filter is saved").wait_for()


@walks("page trace/*", "GET /traces/*")
def test_a_record_leads_to_its_trace(page: Page) -> None:
    opened(page, "traced")
    page.get_by_role("button", name="Record at offset 0 of partition 0").click()
    page.get_by_role("dialog").get_by_role("link", name="Show the trace of this record").click()
    page.get_by_role("heading", name="Trace of traced-0, offset 0").wait_for()
    page.get_by_role("row").filter(has_text="in the broker").get_by_text("2.00 ms").wait_for()
    page.get_by_text("this record", exact=True).wait_for()
    page.get_by_text("kcli trace --bootstrap-server").wait_for()
    assert TRACE in page.url


@walks("GET /topics/*/messages/tail", "button Live")
def test_the_live_tail_shows_new_records_until_it_is_paused(page: Page, kafka: Site, topic: str) -> None:
    opened(page, topic)
    page.get_by_role("button", name="Live").click()
    page.get_by_text("Live: 0 new records seen.").wait_for()
    kafka.send(topic, record(77), partition=1)
    rows(page).filter(has_text="k77").wait_for()
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("Paused. 1 record shown.").wait_for()
    kafka.send(topic, record(78))
    search(page)
    assert rows(page).filter(has_text="k78").count() == 1


def test_a_flood_is_left_out_and_the_page_says_so(page: Page, kafka: Site, topic: str) -> None:
    opened(page, topic)
    page.get_by_role("button", name="Live").click()
    page.get_by_text("Live: 0 new records seen.").wait_for()
    many = [record(n, value=b"") for n in range(30_000)]
    for _ in range(3):
        kafka.send(topic, *many)
    page.get_by_text(re.compile(r"Left out [\d,]{5,} records")).wait_for()
    assert rows(page).count() <= 1000


@walks("GET /topics/*/analysis", "button Analyse")
def test_the_analysis_shows_figures(page: Page) -> None:
    opened(page, "orders", "/analysis")
    page.get_by_role("button", name="Analyse").click()
    page.get_by_text("Read 60 records").wait_for()
    page.get_by_role("heading", name="Sizes").wait_for()
    assert "60" in page.locator(".tile", has_text="Records").first.inner_text()


def test_scripts_in_records_are_only_texts(page: Page) -> None:
    opened(page, "hostile", start="earliest")
    assert SCRIPT in rows(page).first.inner_text()
    page.get_by_role("button", name="Record at offset 0 of partition 0").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Headers (2)").wait_for()
    assert dialog.inner_text().count(SCRIPT) == 4  # key, value, name and value of a header
    assert page.locator("main img[src=x], dialog img[src=x], script:not([src])").count() == 0
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Record at offset 1 of partition 0").click()
    page.get_by_role("dialog").get_by_text("onerror").wait_for()


def test_a_value_of_ten_megabytes_is_cut_and_can_be_downloaded(page: Page) -> None:
    opened(page, "hostile", start="earliest")
    page.get_by_role("button", name="Record at offset 5 of partition 0").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("only the beginning is shown").wait_for()
    with page.expect_download() as download:
        dialog.get_by_label("Download the bytes of the value").click()
    assert download.value.path().stat().st_size == 10_000_003
