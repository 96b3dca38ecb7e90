"""Hadoop's own configuration files, read without Hadoop."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from replication.errors import SetupError

_VARIABLE: Final = re.compile(r"\$\{env\.(\w+)(?::?-([^}]*))?\}")


def hadoop_site(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties in ``core-site.xml`` and ``hdfs-site.xml`` of HADOOP_CONF_DIR.

    Variables of the environment are resolved in them.

    Raises:
        SetupError: A file cannot be read.
    """
    folder = environ.get("HADOOP_CONF_DIR")
    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml") if folder else ():
        file = Path(str(folder), name)
        try:
            entries = ET.parse(file).iter("property")  # noqa: S314 - the operator's own file
        except FileNotFoundError:
            continue
        except (OSError, ET.ParseError) as error:
            raise SetupError(f"cannot read {file}, which HADOOP_CONF_DIR names: {error}") from error
        for entry in entries:
            value = (entry.findtext("value") or "").strip()
            found[(entry.findtext("name") or "").strip()] = _resolved(value, environ)
    return found


def _resolved(value: str, environ: Mapping[str, str]) -> str:
    def variable(match: re.Match[str]) -> str:
        return environ.get(match[1]) or match[2] or match[0]

    return _VARIABLE.sub(variable, value)
