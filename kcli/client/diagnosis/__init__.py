"""Finds the first thing that is wrong between a client and a cluster, and the change that mends it.

`doctor.py` walks from the names of the servers to a record that is written and read back. `ports.py` looks at one port
with plain sockets, and `certificates.py` judges the certificate of a server. Everything works on Apache Kafka too.
"""
