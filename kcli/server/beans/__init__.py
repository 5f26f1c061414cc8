"""Beans: the metrics of a node, under the object names of Kafka's JMX, served over HTTP."""
