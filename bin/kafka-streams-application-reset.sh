#!/bin/sh
export KCLI_SCRIPT=kafka-streams-application-reset.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli streams-application-reset "$@"
