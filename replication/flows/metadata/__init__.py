"""What describes remote topics, kept in step: settings and access rules."""
