"""Records of every enabled flow, without checkpoints and heartbeats."""

from replication.cli.jobs import job_command

if __name__ == "__main__":
    job_command("replicate")()
