#!/bin/sh
export KCLI_SCRIPT=kafka-verifiable-consumer.sh
PATH="$(dirname "$0")/../.venv/bin:$(dirname "$0"):$PATH" exec kcli verifiable-consumer "$@"
