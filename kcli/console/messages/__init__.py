"""The records of topics in the console: reading, filtering, decoding, sending, deleting and analysing.

`reader` reads chunks of a partition. `scan` merges the partitions of a topic in the order of time, and `tail` follows
new records. `rows` makes the JSON of a record, cut to a size that a page can show. Decompression, filters and decoding
run in threads, because they are heavy. Each request of a page has its own connections, with the login of its session.
"""
