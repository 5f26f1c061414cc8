#!/bin/sh
export KCLI_SCRIPT=kafka-leader-election.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli leader-election "$@"
