"""Groups whose jobs run several times per period, up to `max_rate` (docs/multi_rate.md).

`timetables` asks for the rates and tests that are `necessary`, tries `pinning`s, and finds orders by `edf`; what is left is
`decided` by the cyclic shop. `groups`: all groups of a small fleet.
"""
