"""The pages of rights, users, quotas and transactions in a real browser, with names that would be scripts in HTML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.wire.api import ApiKey
from rigs.console_site import SCRIPT, Site
from rigs.wire_client import connect

if TYPE_CHECKING:
    from playwright.sync_api import Page

OTHER = f"User:{SCRIPT} of this test"
PAGES = ("security", "security/users", "quotas", "transactions", "transactions/hanging")


def act(page: Page, verb: str) -> str:
    """Looks at the preview of a dialog, and then acts. Returns the command line of the preview."""
    dialog = page.get_by_role("dialog")
    look = dialog.get_by_role("button", name="Preview")
    if look.count():  # without fields, the preview is shown at once
        look.click()
    command = dialog.locator("pre").inner_text()
    dialog.get_by_role("button", name=verb, exact=True).click()
    dialog.wait_for(state="detached")
    return command


def test_acls_are_added_and_removed(page: Page) -> None:
    page.goto("#/main/security")
    page.get_by_role("button", name="Add ACLs").click()
    page.get_by_role("textbox", name="Principal").fill(OTHER)
    page.get_by_label("For", exact=True).select_option("consumer")
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_label("Group of the consumer").fill("billing")
    assert "--consumer --topic orders --group billing" in act(page, "Add")
    rows = page.locator("tbody tr:not(.spacer)").filter(has_text=OTHER)
    rows.nth(2).wait_for()
    for left in (2, 1, 0):
        rows.first.get_by_role("button", name="Remove the ACL of").click()
        assert "--remove" in act(page, "Remove")
        page.wait_for_function(
            "([text, count]) => [...document.querySelectorAll('tbody tr')]"
            ".filter((row) => row.textContent.includes(text)).length === count",
            arg=[OTHER, left],
        )


def test_a_password_is_set_and_its_credential_removed(page: Page) -> None:
    page.goto("#/main/security/users")
    page.get_by_role("button", name="Set a password").first.click()
    page.get_by_role("textbox", name="User", exact=True).fill("carol")
    page.get_by_label("Password", exact=True).fill("hush-hush")
    assert "hush" not in act(page, "Set")
    page.get_by_role("button", name="Remove SCRAM-SHA-512 of carol").click()
    page.get_by_role("textbox", name="Type carol to confirm").fill("carol")
    assert "--delete-config SCRAM-SHA-512" in act(page, "Remove")
    page.get_by_role("button", name="Set a password of carol").wait_for(state="detached")


def test_a_quota_is_set_and_ended(page: Page) -> None:
    page.goto("#/main/quotas")
    page.get_by_role("button", name="Set a quota").click()
    page.get_by_label("User", exact=True).fill("carol")
    page.get_by_label("Bytes a second that producers may send").fill("1048576")
    assert "--add-config producer_byte_rate=1048576" in act(page, "Set")
    page.locator("tbody tr").filter(has_text="carol").filter(has_text="1.0 MiB/s").wait_for()
    carol = page.locator("tbody tr").filter(has_text="carol")
    carol.get_by_role("button", name="Edit this quota").click()
    page.get_by_label("Bytes a second that producers may send").fill("")
    assert "--delete-config producer_byte_rate" in act(page, "Change")
    carol.wait_for(state="detached")


async def _begin(port: int, transactional_id: str) -> None:
    """Begins a transaction that writes nothing, and leaves it open."""
    client = await connect(port)
    try:
        asked = FindCoordinatorRequest(key_type=1, coordinator_keys=(transactional_id,))
        producer = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=600_000)
        for _ in range(100):
            await client.call(asked, ApiKey.FIND_COORDINATOR, 4)
            found = await client.call(producer, ApiKey.INIT_PRODUCER_ID, 4)
            if not found.error_code:
                break
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=found.producer_id,
            v3_and_below_producer_epoch=found.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name="orders", partitions=(1,)),),
        )
        await client.call(request, ApiKey.ADD_PARTITIONS_TO_TXN, 3)
    finally:
        client.close()


def test_an_open_transaction_is_shown_and_ended(page: Page, kafka: Site) -> None:
    kafka.run(_begin(kafka.port, SCRIPT))
    page.goto("#/main/transactions")
    page.get_by_role("link", name=SCRIPT).click()
    page.get_by_role("link", name="orders").wait_for()
    page.get_by_role("button", name="Abort and fence").click()
    page.get_by_role("dialog").get_by_role("textbox").fill(SCRIPT)
    assert "forceTerminateTransaction" in act(page, "Abort")
    # The markers may still be on their way.
    page.locator("tbody .badge").filter(has_text=re.compile("Abort|Empty")).wait_for()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_pages_are_accessible_and_fit(page: Page, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.set_viewport_size({"width": width, "height": 800})
    for name in PAGES:
        page.goto(f"#/main/{name}")
        page.get_by_role("heading", level=1).wait_for()
        page.get_by_role("status").filter(has_text="row").wait_for()
        found = Axe().run(page).response["violations"]
        assert [each["id"] for each in found] == [], (name, found)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
