"""Counts the words in a topic of lines, and writes the counts to a compacted topic.

kcli spark-submit word_count.py --bootstrap-server localhost:9092 --input lines --output word-counts
"""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kcli.spark.streams import Long, Streams, Text


def word_count(app: Streams, lines: str, counts: str) -> None:
    """Counts the words in the topic `lines`, and writes a record for each word to the topic `counts`.

    The key is the word. The value is the count of the word, in the format of Kafka Streams.
    """
    words = app.stream(lines, value=Text()).flat_map_values(lambda line: F.split(F.lower(line.value), r"\W+"))
    by_word = words.filter(lambda word: word.value != "").group_by(lambda word: word.value)
    by_word.count().to_table(counts, value=Long())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--input", default="lines", help="topic of lines of text")
    parser.add_argument(
        "--output", default="word-counts", help="topic for the counts, created if it does not exist"
    )
    parser.add_argument(
        "--checkpoint",
        default="word-count-checkpoint",
        help="directory for the offsets and the state of the query",
    )
    parser.add_argument("--once", action="store_true", help="count the lines that exist now, and end")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("word-count").getOrCreate()
    app = Streams(
        spark, "word-count", bootstrap_servers=options.bootstrap_server, checkpoint=options.checkpoint
    )
    word_count(app, options.input, options.output)
    if options.once:
        app.run_available()
    else:
        app.run()


if __name__ == "__main__":
    main()
