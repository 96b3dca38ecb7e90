"""The mirror: every enabled flow of a configuration file, in one Spark application."""

import sys

from replication.cli import mirror_command

if __name__ == "__main__":
    sys.exit(mirror_command())
