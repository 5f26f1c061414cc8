#!/bin/sh
export KCLI_SCRIPT=kafka-consumer-perf-test.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli consumer-perf-test "$@"
