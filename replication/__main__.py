"""``python -m replication``."""

from replication.cli.main import main

if __name__ == "__main__":
    main(prog_name="replication")
