"""The limits of reading records. Each limit bounds the memory or the time of one request of a page."""

from __future__ import annotations

CHUNK_BYTES = 1 << 20
"""The size of one Fetch answer. Brokers send the first batch whole, even if it is larger (KIP-74)."""

WINDOW_BYTES = 4 << 20
"""The most bytes of a window that is read backwards. A window with more bytes is divided."""

FETCHES_AT_ONCE = 4
"""The most partitions that one request reads at a time."""

DEFAULT_ROWS = 50
MAX_ROWS = 500
"""The most records that one request returns. A page shows about 30 records at a time, and requests more when the user
scrolls."""

SCAN_RECORDS = 5_000_000
SCAN_BYTES = 2 << 30
SCAN_SECONDS = 30.0
"""A request ends after this number of records, bytes or seconds. It then returns the offsets at which the next request
continues."""

PROGRESS_SECONDS = 0.5
"""The time between two reports of progress."""

WORKERS = 4
"""The threads that decompress, filter and decode records, for all sessions of a console."""

READS_AT_ONCE = 8
"""The most reading requests of all sessions at a time. Each request may hold FETCHES_AT_ONCE windows in memory."""

API_SECONDS = 15
"""The time after which a request to the cluster ends with an error. A person waits for the answer."""

PREVIEW_BYTES = 2_000
"""The most bytes of a key, value or header in a list."""

PREVIEW_HEADERS = 50
"""The most headers of a record in a list. A record may have thousands of headers."""

FULL_BYTES = 1 << 20
"""The most bytes of a value in the view of one record. A larger value can be downloaded."""

PARSE_BYTES = 4 << 20
"""The largest value that is parsed. Parsing blocks all Python threads for about 10 ms a megabyte."""

DOWNLOAD_RECORDS = 100_000
DOWNLOAD_BYTES = 256 << 20
DOWNLOAD_SECONDS = 300.0
"""The most records, bytes and seconds of one download. `kcli console-consumer` has no such limits."""

PIECE_BYTES = 1 << 20
"""The approximate size of a piece of a download. The piece stays in memory until the browser has received it."""
