"""Decides what runs when: events in, instructions out; no clock, no socket, nothing but the standard library."""
