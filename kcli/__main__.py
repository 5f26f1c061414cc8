"""`python -m kcli` is `kcli`."""

from kcli.cli.main import main

main()
