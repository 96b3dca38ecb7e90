"""Heartbeats of every pair of clusters, including disabled flows."""

from replication.cli.jobs import job_command

if __name__ == "__main__":
    job_command("heartbeats")()
