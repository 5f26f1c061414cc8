"""Judges a group by its commits: computes its state, its lag in seconds, and a sentence that explains both.

The input is a series of samples. A sample has the end offsets of partitions and the last commits of groups.
`LagTracker` keeps a small window of the last commits of each group and partition (`window.py`). It also keeps a history
of the end offset of each partition (`history.py`). `LagTracker` judges a partition in three steps:

1. `burrow.py` has the rules of Burrow (github.com/linkedin/Burrow): OK, WARN, STOP, STALL, REWIND. These rules need no
   threshold, because they compare a group with its own commits.
2. `patience.py` keeps the state OK while a group is only idle, or commits rarely. With Burrow's rules alone, such
   groups would change their state all the time.
3. `sentences.py` describes the state in a sentence: "member c-2 on host h has committed nothing for 4 min on
   orders-3".

This package is pure. It reads no clock, no file and no socket, so brokers, tools and tests use the same code.
"""
