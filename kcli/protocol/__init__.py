"""The wire and the batch format: the only room that imports kio.

`codec` turns frames into messages and back, `messages/` are the messages, `api` says which exist at which versions,
`batch` and `compression` know record batches, `records/` the records that Kafka keeps in its internal topics.
"""
