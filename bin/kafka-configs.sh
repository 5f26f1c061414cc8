#!/bin/sh
export KCLI_SCRIPT=kafka-configs.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli configs "$@"
