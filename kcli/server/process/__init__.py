"""The process of a node: reports of long turns of the event loop."""
