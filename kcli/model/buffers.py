"""The types of bytes that readers accept."""

Buffer = bytes | bytearray | memoryview
