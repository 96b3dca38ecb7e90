"""Two Kafka clusters on this machine and everything that runs on them.

Tests and benchmarks use this folder; the product does not.
"""
