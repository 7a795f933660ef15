"""Runs plans on real engines: a pure core decides, Ray carries it out."""
