"""The settings of remote topics, kept in step with their source topics."""

from replication.cli.jobs import job_command

if __name__ == "__main__":
    job_command("metadata")()
