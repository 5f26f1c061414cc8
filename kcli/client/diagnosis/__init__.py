"""Finds the first problem between a client and a cluster, and the change that solves it.

`doctor.py` makes all checks in order. It begins with the host names of the servers, and ends with a record that is
written and read again. `ports.py` checks one port with plain sockets. `certificates.py` checks the certificate of a
server. All checks also work with Apache Kafka.
"""
