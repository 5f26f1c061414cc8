#!/bin/sh
export KCLI_SCRIPT=kafka-metadata-quorum.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli metadata-quorum "$@"
