#!/bin/sh
export KCLI_SCRIPT=kafka-reassign-partitions.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli reassign-partitions "$@"
