#!/bin/sh
export KCLI_SCRIPT=kafka-broker-api-versions.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli broker-api-versions "$@"
