#!/bin/sh
export KCLI_SCRIPT=kafka-producer-perf-test.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli producer-perf-test "$@"
