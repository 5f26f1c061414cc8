"""What readers of bytes accept."""

Buffer = bytes | bytearray | memoryview
