"""Two codecs for wire messages without kio, for a comparison: `bench/codecs.py` measures them, and ADR 8 decides."""
