#!/bin/sh
export KCLI_SCRIPT=kafka-e2e-latency.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli e2e-latency "$@"
