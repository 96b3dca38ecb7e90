"""The figures of flows as Prometheus reads them."""
