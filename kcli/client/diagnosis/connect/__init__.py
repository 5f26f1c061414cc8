"""Finds out why a connector of Kafka Connect does not run, from the answers of the REST API of a worker.

`state.py` reads the states of connectors. `rules.py` makes the findings. `hints.py` has the advice for well-known
errors. All of it also works with the workers of Apache Kafka.
"""
