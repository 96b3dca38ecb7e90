"""Measures the figures of the flows of a process, for whoever shows them."""
