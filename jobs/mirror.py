"""Everything: records, checkpoints and heartbeats of every enabled flow of a configuration file."""

from replication.cli.jobs import job_command

if __name__ == "__main__":
    job_command("mirror")()
