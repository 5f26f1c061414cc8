"""Runs kcli with a prototype codec: `python -m codec_prototype.run CODEC ARGV...`, as in `… lines server-start …`."""

from __future__ import annotations

import sys

from kcli.cli.main import main

if __name__ == "__main__":
    _, codec, *argv = sys.argv
    if codec != "kio":
        from codec_prototype.wire_codec import install

        install(codec)
    sys.argv = ["kcli", *argv]
    main()
