"""`python -m rollplan` is `rollplan`."""

from rollplan.cli.main import run

run()
