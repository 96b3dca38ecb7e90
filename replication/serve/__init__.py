"""What a mirror publishes, for programs (REST) and people (pages); it needs no Spark."""
