#!/bin/sh
export KCLI_SCRIPT=kafka-cluster.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli cluster "$@"
