"""Turns a configuration file into one checked tree of values. Only this package reads YAML."""
