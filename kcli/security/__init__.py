"""Pure security: SCRAM's arithmetic. No sockets, no files; secrets go in and proofs come out, and nothing is logged."""
