"""What may be shown of a flow: the registry, an observation and its document, lag, health. Pure."""
