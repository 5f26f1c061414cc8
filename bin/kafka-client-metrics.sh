#!/bin/sh
export KCLI_SCRIPT=kafka-client-metrics.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli client-metrics "$@"
