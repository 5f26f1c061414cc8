#!/bin/sh
export KCLI_SCRIPT=kafka-replica-verification.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli replica-verification "$@"
