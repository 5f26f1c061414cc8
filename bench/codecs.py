"""Compares three codecs for wire messages: kio as `kcli.protocol.wire.codec` uses it, and two of our own.

    python bench/codecs.py [--quick]

The two prototypes are in `bench/codec_prototype/`: "tables" is the codec of `kcli.protocol.records.schema`, and "lines"
compiles one function per message and version. Both use record classes, which are generated at run time from the same
classes of kio that `kcli.protocol.wire.generate` reads. First the script checks that all three codecs agree: same
bytes, same messages, same refusals. Then it measures CPU time in turns (kio, tables, lines, kio …). A figure is the
median of the turns. A ratio is the median of the ratios within each turn, with the lowest and the highest. With this
method other processes on the machine have little influence.

docs/adr/0008 has the conclusions from these figures.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODECS = ("kio", "tables", "lines")
TURNS = 9
TURN_SECONDS = 0.03
"""The CPU time of one codec in one turn.

It is long compared with the resolution of the clock, and short compared with the activity of other processes.
"""

Times = dict[str, list[float]]
"""The times of each codec, one for each turn."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--quick", action="store_true", help="3 turns instead of 9, and no brokers")
    quick = arguments.parse_args().quick
    turns = 3 if quick else TURNS
    with tempfile.TemporaryDirectory(prefix="kcli-codecs-") as directory:
        work = Path(directory)
        sys.path.insert(0, directory)  # the place of wire_records; codec_prototype is beside this file
        record_lines = _write_packages(work)
        _check_agreement()
        _measure_messages(turns)
        _measure_first_use(work, turns)
        if not quick:
            _measure_brokers(work, turns)
        _count_lines(record_lines)


def _write_packages(work: Path) -> int:
    """Writes and compiles the packages that child processes import, because an installed kcli has byte code too."""
    from codec_prototype.records import write_records

    shutil.copytree(
        ROOT / "bench" / "codec_prototype",
        work / "codec_prototype",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return write_records(work / "wire_records")


# All codecs agree ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operations:
    """Decodes and encodes one message with one codec."""

    decode: Callable[[bytes], typing.Any]
    encode: Callable[[], bytes]


def _operations(sample: typing.Any) -> dict[str, Operations]:
    from codec_prototype import lines, tables

    from kcli.protocol.wire import codec
    from kcli.protocol.wire.api import API

    ours, record = sample.both()
    spec, version, cls = API[sample.key], sample.version, type(record)
    return {
        "kio": Operations(
            lambda frame: codec._decode(spec, version, sample.kind, frame, 0),
            lambda: codec.encode_body(ours, spec, version, sample.kind),
        ),
        "tables": Operations(
            lambda frame: tables.decode(cls, version, frame, 0), lambda: tables.encode(record, version)
        ),
        "lines": Operations(
            lambda frame: lines.decode(cls, version, frame, 0), lambda: lines.encode(record, version)
        ),
    }


def _check_agreement() -> None:
    """Exits unless all three codecs write the same bytes, read the same messages and refuse truncated frames."""
    from codec_prototype.samples import SAMPLES, all_samples

    checked = cut = 0
    for sample in (*SAMPLES, *all_samples()):
        operations = _operations(sample)
        frame = operations["kio"].encode()
        expected = _outcome(operations["kio"], frame)
        for name in CODECS[1:]:
            _require(operations[name].encode() == frame, sample, f"{name} writes other bytes")
            _require(_outcome(operations[name], frame) == expected, sample, f"{name} reads another message")
        checked += 1
        if len(frame) < 1_000:
            for end in range(len(frame)):
                refused = {name: _outcome(operations[name], frame[:end]) for name in CODECS}
                _require(set(refused.values()) == {"refused"}, sample, f"cut at byte {end}: {refused}")
                cut += 1
    print(
        f"{checked} messages: same bytes and same message from all three; {cut} frames cut short: all refused"
    )
    _compare_damaged(all_samples())


def _compare_damaged(samples: Iterable[typing.Any]) -> None:
    """Changes single bytes of frames, and prints how often and why a codec disagrees with kio about such a frame."""
    tried, reasons = 0, {name: Counter[str]() for name in CODECS[1:]}
    for sample in samples:
        if not (sample.name.endswith("full") and sample.is_newest):
            continue
        operations = _operations(sample)
        frame = operations["kio"].encode()
        for at, byte in itertools.product(range(len(frame)), (0x00, 0x7F, 0xFF)):
            damaged = frame[:at] + bytes([byte]) + frame[at + 1 :]
            expected = _outcome(operations["kio"], damaged)
            tried += 1
            for name, counter in reasons.items():
                if _outcome(operations[name], damaged) != expected:
                    counter[_reason(operations["kio"], damaged)] += 1
    print(
        f"{tried} frames with a byte changed. Decided otherwise than kio, and what kio made of those frames:"
    )
    for name, counter in reasons.items():
        print(f"  {name}: {dict(counter.most_common())}")


def _reason(operations: Operations, frame: bytes) -> str:
    from kcli.errors import ProtocolError

    try:
        operations.decode(frame)
    except ProtocolError as error:
        return re.sub(r"\d+", "N", str(error).partition("malformed: ")[2])
    return "read with another value"


def _outcome(operations: Operations, frame: bytes) -> str:
    from codec_prototype.samples import plain

    from kcli.errors import ProtocolError

    try:
        return repr(plain(operations.decode(frame)))
    except ProtocolError:
        return "refused"


def _require(holds: bool, sample: typing.Any, message: str) -> None:
    if not holds:
        sys.exit(f"{sample.name} v{sample.version} {sample.kind}: {message}")


# CPU time of a message ----------------------------------------------------------------------------


def _measure_messages(turns: int) -> None:
    from codec_prototype.samples import SAMPLES

    print(f"\n{'':50}{'decode':^50}{'encode':^50}")
    columns = f"{'kio µs':>10}{'tables':>20}{'lines':>20}"
    print(f"{'message':<40}{'bytes':>10}{columns}{columns}")
    for sample in SAMPLES:
        operations = _operations(sample)
        frame = operations["kio"].encode()
        decode = _in_turns(
            {name: lambda each=each, frame=frame: each.decode(frame) for name, each in operations.items()},
            turns,
        )
        encode = _in_turns({name: each.encode for name, each in operations.items()}, turns)
        name = f"{sample.name} {sample.kind}"
        print(f"{name:<40}{len(frame):>10,}{_row(decode, 1e6)}{_row(encode, 1e6)}", flush=True)


def _in_turns(works: dict[str, Callable[[], object]], turns: int) -> Times:
    """Returns the CPU seconds of one call of each function, measured in turns of about TURN_SECONDS."""
    counts = {name: max(1, round(TURN_SECONDS / _cpu_seconds(work, 1))) for name, work in works.items()}
    times: Times = {name: [] for name in works}
    for _ in range(turns):
        for name, work in works.items():
            times[name].append(_cpu_seconds(work, counts[name]))
    return times


def _cpu_seconds(work: Callable[[], object], count: int) -> float:
    work()
    begun = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - begun) / count


def _row(times: Times, scale: float) -> str:
    """Returns a row: the median of kio, and for each other codec the median, lowest and highest ratio to kio."""
    cells = [f"{statistics.median(times['kio']) * scale:>10,.1f}"]
    for name in CODECS[1:]:
        ratios = [other / kio for other, kio in zip(times[name], times["kio"], strict=True)]
        cells.append(f"{statistics.median(ratios):>8.2f} ({min(ratios):.2f}–{max(ratios):.2f})")
    return "".join(f"{cell:>20}" if place else cell for place, cell in enumerate(cells))


# A fresh process ----------------------------------------------------------------------------------

FIRST_USES = {
    "import alone": (),
    "a tool: 2 APIs": ("API_VERSIONS", "METADATA"),
    "a broker: 12 APIs": (
        "API_VERSIONS", "METADATA", "FIND_COORDINATOR", "JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "OFFSET_COMMIT",
        "OFFSET_FETCH", "LIST_OFFSETS", "CREATE_TOPICS", "DESCRIBE_CONFIGS", "INIT_PRODUCER_ID",
    ),
    "a broker: all APIs": None,
}  # fmt: skip


def _measure_first_use(work: Path, turns: int) -> None:
    print(f"\n{'a fresh process':<47}{'kio':>10}{'tables':>20}{'lines':>20}")
    for name, keys in FIRST_USES.items():
        jobs = work / "jobs"
        jobs.write_text("\n".join(_jobs(keys, is_client=name.startswith("a tool"))))
        figures: list[Times] = [{codec: [] for codec in CODECS} for _ in range(3)]
        for _ in range(turns):
            for codec in CODECS:
                imported, used, resident, _ = _child(work, codec, jobs)
                for each, value in zip(figures, (imported, imported + used, resident / 1024), strict=True):
                    each[codec].append(value)
        if keys == ():
            print(f"{name + ': CPU ms':<47}{_row(figures[0], 1e3)}")
        else:
            print(f"{name + ', import and first use: CPU ms':<47}{_row(figures[1], 1e3)}")
        print(f"{'  resident set grows by MB':<47}{_row(figures[2], 1)}")
        peaks = {codec: [_child(work, codec, jobs, "--trace")[3] / 1024] for codec in CODECS}
        print(f"{'  peak of traced memory MB':<47}{_row(peaks, 1)}", flush=True)
    _print_import_time(work)


def _jobs(keys: tuple[str, ...] | None, *, is_client: bool) -> Iterable[str]:
    """Yields the jobs of a process: the newest version of each API, with every field set, is read or written."""
    from codec_prototype.samples import filled_sample

    from kcli.protocol.wire.api import API, ApiKey

    reads = "response" if is_client else "request"
    for key in API if keys is None else [ApiKey[name] for name in keys]:
        for kind in ("request", "response"):
            sample = filled_sample(key, API[key].max_version, kind, "full")
            frame = _operations(sample)["kio"].encode()
            yield f"{key.value} {sample.version} {kind} {'read' if kind == reads else 'write'} {frame.hex()}"


def _child(work: Path, codec: str, jobs: Path, *options: str) -> list[float]:
    command = [sys.executable, "-m", "codec_prototype.first_use", codec, str(jobs), *options]
    done = subprocess.run(command, env=_environment(work), check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


def _print_import_time(work: Path) -> None:
    """Prints the elapsed time of each codec's import and of all imports in it, by `python -X importtime`."""
    modules = {
        "kio": "kcli.protocol.wire.codec",
        "tables": "codec_prototype.tables",
        "lines": "codec_prototype.lines",
    }
    times: Times = {codec: [] for codec in CODECS}
    for _ in range(5):
        for codec, module in modules.items():
            code = f"import sys; sys.modules['hypothesis'] = None; import {module}"
            command = [sys.executable, "-X", "importtime", "-c", code]
            done = subprocess.run(command, env=_environment(work), check=True, capture_output=True, text=True)
            (line,) = (line for line in done.stderr.splitlines() if line.split("|")[-1].strip() == module)
            package = [line for line in done.stderr.splitlines() if line.split("|")[-1].rstrip() == " kcli"]
            times[codec].append(sum(int(each.split("|")[1]) for each in (line, *package)) / 1e6)
    print(f"{'python -X importtime: ms':<47}{_row(times, 1e3)}", flush=True)


def _environment(work: Path) -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=f"{work}{os.pathsep}{ROOT}")


# A broker -----------------------------------------------------------------------------------------


def _measure_brokers(work: Path, turns: int) -> None:
    from codec_prototype.brokers import measure

    print(f"\n{'a broker: CPU µs per request':<47}{'kio':>10}{'tables':>20}{'lines':>20}", flush=True)
    for name, times, scale in measure(work, _environment(work), CODECS, turns):
        print(f"{name:<47}{_row(times, scale)}", flush=True)


# Lines --------------------------------------------------------------------------------------------


def _count_lines(record_lines: int) -> None:
    wire = ROOT / "kcli" / "protocol" / "wire"
    prototype = ROOT / "bench" / "codec_prototype"
    today = {name: _lines(wire / f"{name}.py") for name in ("codec", "bounds", "schema", "generate")}
    ours = {name: _lines(prototype / f"{name}.py") for name in ("fields", "tables", "lines", "wire_codec")}
    messages = sum(_lines(path) for path in (ROOT / "kcli" / "protocol" / "messages").glob("*.py"))
    print(f"\nlines today: {today}; messages {messages}")
    print(f"lines of the prototype: {ours}; messages {record_lines}")


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()
