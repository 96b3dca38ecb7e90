"""What describes remote topics, kept in step: settings, access rules, deletions."""
