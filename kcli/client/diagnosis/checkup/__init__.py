"""Looks at a whole cluster, as an experienced operator does in ten minutes.

`gather` in gather.py asks the cluster for everything that the rules need, and returns a `Snapshot`. `check_up` in
rules.py applies the rules to a snapshot and returns findings, the worst first. The rules are pure. They work on Apache
Kafka and on kcli. A part that the cluster does not answer is in `Snapshot.missing`, and its rules say so.
"""
