"""From a configuration file to one checked tree of values. The only place that reads YAML."""
