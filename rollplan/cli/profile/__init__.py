"""`rollplan profile`: measure, or read what others measured."""
