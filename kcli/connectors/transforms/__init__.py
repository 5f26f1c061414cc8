"""The single message transformations and the predicates of Apache Kafka.

A transformation of keys and values has a class for each of both, as in Kafka: `Cast$Key` is `CastKey` here.
"""
