"""The heartbeats of every pair of clusters, be its flow enabled or not."""

from replication.cli.jobs import job_command

if __name__ == "__main__":
    job_command("heartbeats")()
