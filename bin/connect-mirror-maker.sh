#!/bin/sh
export KCLI_SCRIPT=connect-mirror-maker.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli mirror-maker "$@"
