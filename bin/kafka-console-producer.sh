#!/bin/sh
export KCLI_SCRIPT=kafka-console-producer.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli console-producer "$@"
