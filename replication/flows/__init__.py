"""What runs until it is stopped: replication, checkpoints, heartbeats."""
