"""Two Kafka clusters on this machine and what runs on them.

Tests and benchmarks use it, the product never.
"""
