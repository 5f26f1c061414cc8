"""Finds cards that pay more in a minute than their limit, and payments of unknown cards.

Payments are keyed by card, `{"amount": 12, "place": "Oslo"}`; cards are a table, `{"owner": "Ada", "limit": 500}`.
Payments may be up to 10 seconds late. So an alarm comes 10 seconds after the end of its minute:
`{"key": card, "start": ms, "end": ms}` with `{"owner": …, "payments": 3, "places": ["Oslo", "Rome"], "total": 812}`.

kcli spark-submit fraud.py --bootstrap-server localhost:9092 --payments payments --cards cards
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kcli.spark.streams import Json, Streams, Text, Tumbling


def fraud(app: Streams, *, payments: str, cards: str, alarms: str, unknown: str) -> None:
    """Two queries: alarms to `alarms`, and payments of cards that are not in the table to `unknown`."""
    known = app.table(cards, key=Text(), value=Json("owner string, limit bigint"))
    paid = app.stream(payments, key=Text(), value=Json("amount bigint, place string")).join_table(
        known,
        lambda payment, card: F.struct(
            payment.value["amount"].alias("amount"), payment.value["place"].alias("place"), card.alias("card")
        ),
        how="left",
    )
    sides = paid.branch(unknown=lambda payment: payment.value["card"].isNull())
    sides["unknown"].to(unknown)
    minutes = sides["otherwise"].group_by_key().windowed_by(Tumbling("1 minute", grace="10 seconds"))
    totals = minutes.aggregate(
        owner=lambda payment: F.max(payment.value["card"]["owner"]),
        limit=lambda payment: F.max(payment.value["card"]["limit"]),
        payments=lambda payment: F.count(payment.value),
        places=lambda payment: F.sort_array(F.collect_set(payment.value["place"])),
        total=lambda payment: F.sum(payment.value["amount"]),
    )
    over = totals.suppress().to_stream().filter(lambda minute: minute.value["total"] > minute.value["limit"])
    over.map_values(lambda minute: minute.value.dropFields("limit")).to(alarms)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--payments", default="payments", help="topic to watch")
    parser.add_argument("--cards", default="cards", help="compacted topic of owners and limits")
    parser.add_argument("--alarms", default="alarms", help="topic for cards that paid more than their limit")
    parser.add_argument("--unknown", default="unknown-cards", help="topic for payments of other cards")
    parser.add_argument("--checkpoint", default="fraud-checkpoint", help="directory for offsets and state")
    parser.add_argument("--once", action="store_true", help="handle the payments that exist, and end")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("fraud").getOrCreate()
    app = Streams(spark, "fraud", bootstrap_servers=options.bootstrap_server, checkpoint=options.checkpoint)
    fraud(app, payments=options.payments, cards=options.cards, alarms=options.alarms, unknown=options.unknown)
    if options.once:
        app.run_available()
    else:
        app.run()


if __name__ == "__main__":
    main()
