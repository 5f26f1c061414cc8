#!/bin/sh
export KCLI_SCRIPT=kafka-delete-records.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli delete-records "$@"
