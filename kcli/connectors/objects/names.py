"""Names of objects. A name is a function of the topic, the partition, the first offset and the directory.

So a task that writes records again gives their object the same name, which replaces the first object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kcli.formats.connect.charsets import whole_characters
from kcli.model.java_text import parse_int, parse_long

_UNSAFE = re.compile(r"[\x00-\x1f\x7f/]")
_ONLY_DOTS = re.compile(r"\.{1,2}")
SEGMENT_BYTES_MAX = 255
"""The longest part of a path that file systems have. Object stores have longer ones."""


def safe_segment(text: str) -> str:
    """A text as one part of a path. A value of a record must not lead out of its directory."""
    if _ONLY_DOTS.fullmatch(text):
        return text.replace(".", "%2E")
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", whole_characters(text))


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """The place in Kafka of the first record of an object."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The keys that decide about names."""

    topics_dir: str
    directory_delimiter: str
    file_delimiter: str
    pad_width: int

    def name(self, topic: str, directory: str, first: FirstRecord, extension: str) -> str:
        """The name of an object below the URL of the store.

        `topic` is the topic after transformations, and `first` is before them. Two topics may get one name by a
        transformation, and their objects must differ.
        """
        delimiter = self.file_delimiter
        offset = f"{first.offset:0{self.pad_width}d}"
        file = f"{safe_segment(first.topic)}{delimiter}{first.partition}{delimiter}{offset}{extension}"
        parts = (self.topics_dir.strip("/"), safe_segment(topic), directory, file)
        return self.directory_delimiter.join(part for part in parts if part)

    def first_record(self, name: str) -> FirstRecord | None:
        """Reads the name of an object. None if the name is not of this layout."""
        file = re.split(f"/|{re.escape(self.directory_delimiter)}", name)[-1]
        delimiter = re.escape(self.file_delimiter)
        match = re.match(rf"(.+){delimiter}([0-9]{{1,10}}){delimiter}([0-9]{{1,19}})(?:\.|$)", file)
        try:
            return None if match is None else FirstRecord(match[1], parse_int(match[2]), parse_long(match[3]))
        except ValueError:
            return None  # a number that Kafka cannot have
