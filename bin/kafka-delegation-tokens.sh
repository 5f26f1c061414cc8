#!/bin/sh
export KCLI_SCRIPT=kafka-delegation-tokens.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli delegation-tokens "$@"
