#!/bin/sh
export KCLI_SCRIPT=kafka-log-dirs.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli log-dirs "$@"
