"""The wire and the batch format: the only room that imports kio.

`wire/` has the frames, the codecs and the table of APIs, `messages/` the messages, `batches/` the record batches,
`records/` the records of Kafka's internal topics.
"""
