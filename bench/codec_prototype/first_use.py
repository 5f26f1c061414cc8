"""Loads one codec and uses it for the first time. `bench/codecs.py` starts many processes of this script.

    python -m codec_prototype.first_use CODEC JOBS [--trace]

Prints the CPU seconds of the import, the CPU seconds of the first uses, and the growth of the resident set in kB. With
`--trace`, which makes it slow, it also prints the peak of traced memory in kB. JOBS is a file with lines `key version
kind read|write hex`. The script itself imports as little as possible, so that the figures include all imports of the
codec.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    # A job: (API key, version, kind, whether to read, frame).
    Use = Callable[[int, int, str, bool, bytes], object]


def main(codec: str, jobs: str, trace: bool) -> None:
    lines = [line.split(" ") for line in Path(jobs).read_text().splitlines()]
    sys.modules["hypothesis"] = None  # as kcli.cli.main does
    if trace:
        import tracemalloc

        tracemalloc.start()
    resident = _resident_kb()
    begun = time.process_time()
    use = _kio() if codec == "kio" else _prototype(codec)
    imported = time.process_time()
    for key, version, kind, direction, frame in lines:
        use(int(key), int(version), kind, direction == "read", bytes.fromhex(frame))
    used = time.process_time()
    grown = _resident_kb() - resident
    peak = tracemalloc.get_traced_memory()[1] // 1024 if trace else 0
    print(imported - begun, used - imported, grown, peak)


def _kio() -> Use:
    from kcli.protocol.wire import codec
    from kcli.protocol.wire.api import API, ApiKey

    def use(key: int, version: int, kind: str, reads: bool, frame: bytes) -> object:
        spec = API[ApiKey(key)]
        if reads:
            return codec._decode(spec, version, kind, frame, 0)
        return codec.encode_body(codec.message_class(spec.key, kind)(), spec, version, kind)

    return use


def _prototype(name: str) -> Use:
    import importlib

    from codec_prototype.fields import message_class
    from kcli.protocol.wire.api import ApiKey

    codec = importlib.import_module(f"codec_prototype.{name}")

    def use(key: int, version: int, kind: str, reads: bool, frame: bytes) -> object:
        cls = message_class(ApiKey(key), kind)
        return codec.decode(cls, version, frame, 0) if reads else codec.encode(cls(), version)

    return use


def _resident_kb() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise RuntimeError("no VmRSS in /proc/self/status")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "--trace" in sys.argv)
