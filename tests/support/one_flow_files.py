"""A file with one flow, as .properties and as YAML, and the problems of a file that is refused."""

from pathlib import Path

import pytest

from replication.errors import ConfigError
from tests.support.settings import load_file

PROPERTIES = """
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:2
A->B.enabled = true
"""
YAML = """
clusters: [A, B]
A.bootstrap.servers: a:1
B: {bootstrap.servers: b:2}
A->B: {enabled: true}
"""


def problems_of(folder: Path, content: str, name: str = "c.yaml", **environ: str) -> list[str]:
    """The problems for which a file called *name* with that *content* is refused."""
    with pytest.raises(ConfigError) as caught:
        load_file(folder, content, name, **environ)
    return list(caught.value.problems)
