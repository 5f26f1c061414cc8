"""The roles of a node and what they share: the broker role, the listeners, the metrics endpoint.

The controller role stands in `quorum/`, because it works only on the quorum.
"""
