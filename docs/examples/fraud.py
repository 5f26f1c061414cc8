"""Finds cards that pay more than their limit in a minute, and payments of unknown cards.

In both input topics, the key of a record is the card. The value of a payment is `{"amount": 12, "place": "Oslo"}`. The
value of a card is `{"owner": "Ada", "limit": 500}`. Payments may be up to 10 seconds late, so an alarm is written 10
seconds after the end of its minute. The key of an alarm is `{"key": card, "start": ms, "end": ms}`. The value is
`{"owner": …, "payments": 3, "places": ["Oslo", "Rome"], "total": 812}`.

kcli spark-submit fraud.py --bootstrap-server localhost:9092 --payments payments --cards cards
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kcli.spark.streams import Json, Streams, Text, Tumbling


def fraud(app: Streams, *, payments: str, cards: str, alarms: str, unknown: str) -> None:
    """Writes alarms to the topic `alarms`, and payments of cards that are not in the table to the topic `unknown`."""
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
    parser.add_argument("--payments", default="payments", help="topic of payments")
    parser.add_argument(
        "--cards", default="cards", help="compacted topic with the owner and the limit of each card"
    )
    parser.add_argument("--alarms", default="alarms", help="topic for cards that paid more than their limit")
    parser.add_argument(
        "--unknown", default="unknown-cards", help="topic for payments of cards that are not in --cards"
    )
    parser.add_argument(
        "--checkpoint",
        default="fraud-checkpoint",
        help="directory for the offsets and the state of the queries",
    )
    parser.add_argument("--once", action="store_true", help="handle the payments that exist now, and end")
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
