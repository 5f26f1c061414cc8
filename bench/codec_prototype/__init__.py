"""Two codecs for wire messages that do not use kio, to compare with it: `bench/codecs.py` measures, ADR 8 decides."""
