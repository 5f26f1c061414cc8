"""The wire protocol and the formats of batches and records.

`wire/` has the frames, the codecs and the table of APIs. `messages/` has the messages, `batches/` the record batches,
and `records/` the records of Kafka's internal topics.
"""
