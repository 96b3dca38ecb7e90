"""``python -m replication``. Nothing but this package is imported from the current folder."""

import sys

if sys.path and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # which Python adds for -m; a yaml.py that lies there must not run

from replication.cli.main import main

if __name__ == "__main__":
    main(prog_name="replication")
