"""The classes of plugins that are part of kcli, by the group of entry points that other packages use for theirs.

kcli declares its own plugins here, because a worker then starts without reading the metadata of kcli's distribution,
and a checkout works without an installation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SOURCE = "kcli.connect.source"
SINK = "kcli.connect.sink"
CONVERTER = "kcli.connect.converter"
HEADER_CONVERTER = "kcli.connect.header_converter"
TRANSFORM = "kcli.connect.transform"
PREDICATE = "kcli.connect.predicate"

BUILT_IN: Mapping[str, Sequence[str]] = {
    SOURCE: ("kcli.connectors.file.connectors:FileStreamSourceConnector",),
    SINK: ("kcli.connectors.file.connectors:FileStreamSinkConnector",),
    CONVERTER: (),
    HEADER_CONVERTER: (),
    TRANSFORM: (),
    PREDICATE: (),
}
"""`module:Class` of each plugin. The names of Java's classes are attributes of the classes."""
