#!/bin/sh
export KCLI_SCRIPT=connect-plugin-path.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli connect-plugin-path "$@"
