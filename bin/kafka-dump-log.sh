#!/bin/sh
export KCLI_SCRIPT=kafka-dump-log.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli dump-log "$@"
