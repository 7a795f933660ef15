"""The front door: one thin module per verb."""
