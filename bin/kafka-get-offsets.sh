#!/bin/sh
export KCLI_SCRIPT=kafka-get-offsets.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli get-offsets "$@"
