"""Frames and messages of the wire: the API table, headers, and the codecs."""
