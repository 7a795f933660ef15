"""Measures and imports: latency curves, phase times, links, lengths, other frameworks' logs. Everything ends in a `Profile`."""
