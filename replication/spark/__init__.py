"""The Spark session, and everything that is a Spark expression or option."""
