"""Measures a link: latency, throughput of one and several streams, broadcast."""
