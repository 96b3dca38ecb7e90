"""Checkpoints and group sync of every enabled flow, whose records another job replicates."""

from replication.cli.jobs import job_command

if __name__ == "__main__":
    job_command("checkpoints")()
