"""The client's side of a group: its membership, without input or output, and members that run it over a `Client`.

A group of consumers, the workers of Kafka Connect and the nodes of a schema registry use the same requests. They differ
in the bytes that they embed, so each of them is an `EmbeddedProtocol`.
"""
