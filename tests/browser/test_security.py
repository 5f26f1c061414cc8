"""The pages of rights, users, quotas and transactions in a real browser, with names that would be scripts in HTML."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from kcli.client.admin.topics import NewTopic
from kcli.protocol.batches.batch import encode_batch
from kcli.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.wire.api import ApiKey
from rigs.console_dialogs import act
from rigs.console_site import SCRIPT, Site
from rigs.console_topics import record
from rigs.console_walk import walks
from rigs.wire_client import Client, connect

if TYPE_CHECKING:
    from playwright.sync_api import Page

OTHER = f"User:{SCRIPT} of this test"


@walks(
    "POST /acls",
    "POST /acls/remove",
    "button Add ACLs",
    "button Remove the ACL of * on *",
    "dialog Add ACLs",
    "dialog Remove an ACL",
)
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


def test_an_acl_for_chosen_operations_is_previewed(page: Page) -> None:
    page.goto("#/main/security")
    page.get_by_role("button", name="Add ACLs").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Principal").fill("User:dave")
    dialog.get_by_label("For", exact=True).select_option(label="Operations that I choose")
    dialog.get_by_label("Name", exact=True).fill("orders")
    dialog.get_by_label("Operations", exact=True).select_option(["READ", "DESCRIBE"])
    dialog.get_by_label("Permission").select_option("DENY")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_text("--deny-principal User:dave").wait_for()
    assert dialog.get_by_role("row").filter(has_text="Topic orders").count() == 2
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("searchbox").fill("dave")
    page.get_by_text("Nothing matches the search.").wait_for()


@walks(
    "POST /users",
    "POST /users/remove",
    "button Set a password",
    "button Set a password of *",
    "button Remove * of *",
    "dialog Set a password",
    "dialog Remove a credential of *",
)
def test_a_password_is_set_and_its_credential_removed(page: Page) -> None:
    page.goto("#/main/security/users")
    page.get_by_role("button", name="Set a password").first.click()
    page.get_by_role("textbox", name="User", exact=True).fill("carol")
    page.get_by_label("Password", exact=True).fill("hush-hush")
    assert "hush" not in act(page, "Set")
    page.get_by_role("button", name="Set a password of carol").click()
    page.get_by_label("Mechanism", exact=True).select_option("SCRAM-SHA-256")
    page.get_by_label("Password", exact=True).fill("hush-hush")
    assert "SCRAM-SHA-256" in act(page, "Set")
    page.get_by_role("button", name="Remove SCRAM-SHA-256 of carol").click()
    page.get_by_role("textbox", name="Type carol to confirm").fill("carol")
    act(page, "Remove")
    page.get_by_role("button", name="Remove SCRAM-SHA-512 of carol").click()
    page.get_by_role("textbox", name="Type carol to confirm").fill("carol")
    assert "--delete-config SCRAM-SHA-512" in act(page, "Remove")
    page.get_by_role("button", name="Set a password of carol").wait_for(state="detached")


@walks(
    "POST /quotas",
    "button Set a quota",
    "button Edit this quota",
    "dialog Set a quota",
    "dialog Change a quota",
)
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


async def coordinator_port(kafka: Site, transactional_id: str) -> int:
    """The port of the coordinator. Asking for it creates the internal topic."""
    client = await connect(kafka.port)
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=(transactional_id,))
    try:
        for _ in range(1000):
            coordinator = (await client.call(request, ApiKey.FIND_COORDINATOR, 4)).coordinators[0]
            if not coordinator.error_code:
                return coordinator.port
            await asyncio.sleep(0.01)
        raise AssertionError(coordinator.error_code)
    finally:
        client.close()


async def _producer(client: Client, transactional_id: str) -> InitProducerIdResponse:
    """A new producer id, after the coordinator has loaded its partition."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=600_000)
    for _ in range(1000):
        response = await client.call(request, ApiKey.INIT_PRODUCER_ID, 4)
        if not response.error_code:
            return response
        await asyncio.sleep(0.01)
    raise AssertionError(response.error_code)


async def _begin(kafka: Site, transactional_id: str) -> None:
    """Begins a transaction that writes nothing, and leaves it open."""
    client = await connect(await coordinator_port(kafka, transactional_id))
    try:
        producer = await _producer(client, transactional_id)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name="orders", partitions=(1,)),),
        )
        await client.call(request, ApiKey.ADD_PARTITIONS_TO_TXN, 3)
    finally:
        client.close()


@walks(
    "POST /transactions/terminate",
    "GET /transactions/by-id",
    "page transactions/id/*",
    "button Abort and fence",
    "dialog Abort the transaction of *",
)
def test_an_open_transaction_is_shown_and_ended(page: Page, kafka: Site) -> None:
    kafka.run(_begin(kafka, SCRIPT))
    page.goto("#/main/transactions")
    page.get_by_role("status").filter(has_text="row").wait_for()
    page.get_by_role("button", name="Refresh").click()
    page.get_by_role("link", name=SCRIPT).click()
    page.get_by_role("link", name="orders").wait_for()
    page.get_by_role("button", name="Abort and fence").click()
    page.get_by_role("dialog").get_by_role("textbox").fill(SCRIPT)
    assert "forceTerminateTransaction" in act(page, "Abort")
    # The markers may still be on their way.
    page.locator("tbody .badge").filter(has_text=re.compile("Abort|Empty")).first.wait_for()


async def _hang(kafka: Site, topic: str) -> None:
    """Writes an old record of a transaction to which its partition was not added, as a client before Kafka 4.0 can."""
    await kafka.client.create_topics(
        [NewTopic(name=topic, assignments={0: (1,)}, configs={"retention.ms": "-1"})]
    )
    client = await connect(await coordinator_port(kafka, topic))
    producer = await _producer(client, topic)
    client.close()
    batch = encode_batch(
        [record(0)],
        transactional=True,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
    )
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),))
    request = ProduceRequest(transactional_id=topic, acks=-1, timeout_ms=10_000, topic_data=(data,))
    leader = await connect(kafka.port)
    response = await leader.call(request, ApiKey.PRODUCE, 9)
    leader.close()
    assert not response.responses[0].partition_responses[0].error_code


@walks(
    "POST /transactions/abort",
    "GET /transactions/hanging",
    "button Abort",
    "dialog Abort the transaction in *-*",
)
def test_a_hanging_transaction_is_found_and_aborted(page: Page, kafka: Site) -> None:
    kafka.run(_hang(kafka, "hangs"))
    page.goto("#/main/transactions/hanging")
    page.get_by_role("button", name="Refresh").click()
    row = page.locator("tbody tr").filter(has_text="hangs-0")
    row.get_by_role("button", name="Abort").click()
    assert "abort --topic hangs --partition 0 --start-offset 0" in act(page, "Abort")
    page.get_by_text("No transaction hangs.").wait_for()
