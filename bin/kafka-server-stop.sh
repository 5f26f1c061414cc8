#!/bin/sh
export KCLI_SCRIPT=kafka-server-stop.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli server-stop "$@"
