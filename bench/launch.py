"""Runs a command, and prints its cost as one JSON line: for bench/tools.py.

    python -I -S bench/launch.py OUTPUT COMMAND…

The kernel counts the memory of the process that starts a command as the command's own, until the command is loaded.
This process is small (about 10 MB), so the peak is the command's own. The imports are few for the same reason.
"""

import os
import sys
import time


def main() -> None:
    output, *command = sys.argv[1:]
    begun = time.perf_counter()
    child = os.fork()
    if not child:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.execv(command[0], command)
    _, status, usage = os.wait4(child, 0)
    seconds = time.perf_counter() - begun
    code, cpu_s = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
    print(
        f'{{"code": {code}, "seconds": {seconds}, "cpu_s": {cpu_s}, "peak_mb": {usage.ru_maxrss * 1024 / 1e6}}}'
    )


if __name__ == "__main__":
    main()
