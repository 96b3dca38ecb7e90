"""Reads a configuration file and resolves its references to secrets; writes a line of one.

Returns the checked configuration or raises one ConfigError. A resolved value is never shown.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml

from replication.config.flat import FlatSettings, Resolver, flat_settings
from replication.config.home import home
from replication.config.keys import KEYS
from replication.config.parse import parse
from replication.config.tree import MirrorConfig
from replication.config.values import MissingValueError, Raw, items, text
from replication.errors import ConfigError

_PLAIN_YAML: Final = re.compile(r"-?[0-9]{1,18}|true|false")
_LISTS: Final = ("patterns", "names", "choices")
_STORES: Final = ("ssl.truststore.location", "ssl.keystore.location")


def missing_files(config: MirrorConfig) -> list[str]:
    """Returns a line for each store that this user cannot read on this machine."""
    missing: dict[str, None] = {}
    clients = [
        (cluster.alias, cluster.admin)
        for flow in config.flows
        for cluster in (flow.source, flow.target)
    ]
    for alias, admin in [*clients, *((pair.alias, pair.admin) for pair in config.heartbeats)]:
        if not admin.get("security.protocol", "").upper().endswith("SSL"):
            continue
        for key in _STORES:
            path = admin.get(key)
            if path and not _is_readable(path):
                missing[f"{alias}.{key}: cannot read {path!r}; check the path"] = None
    return list(missing)


def _is_readable(path: str) -> bool:
    try:
        with Path(path).open("rb"):
            return True
    except (OSError, ValueError):
        return False


def load_config(file: str, clusters: str = "", *, is_whole: bool = False) -> MirrorConfig:
    """Reads the configuration in *file* with this process's environment.

    A job needs the *whole* file. A command needs what it uses: on call, the shell of somebody who
    looks or stops a flow has not all variables that the job has.

    Raises:
        ConfigError: As `load`.
    """
    default = (home() / "state").absolute().as_uri()
    return load(
        file, environ=os.environ, default_state_dir=default, clusters=clusters, is_whole=is_whole
    )


def load(
    path: str | Path,
    *,
    environ: Mapping[str, str],
    default_state_dir: str,
    clusters: str = "",
    is_whole: bool = True,
) -> MirrorConfig:
    """Reads the configuration in the file *path*.

    Java's properties and YAML are told apart by the content; the name decides where both fit.

    Args:
        path: The file; messages show the path as given.
        environ: The variables that ``${env:NAME}`` refers to.
        default_state_dir: The state directory if the file does not set ``state.dir``.
        clusters: If not empty, the value of the option ``--clusters``.
        is_whole: Whether each reference must lead somewhere. Else a field whose value is not known
            is a `MissingValue`.

    Raises:
        ConfigError: The file cannot be read or has problems; the error lists all of them.
    """
    file = str(path)
    flat = read_settings(file)
    resolver = Resolver(file, flat.settings, environ)
    settings = {key: resolver.resolve(key, raw) for key, raw in flat.settings.items()}
    missing = [problem for found in resolver.unresolved.values() for problem in found]
    problems = [*flat.problems, *(missing if is_whole else [])]
    try:
        config = parse(
            file,
            settings,
            default_state_dir=default_state_dir,
            lines=flat.lines,
            hidden=resolver.resolved_keys,
            targets=clusters,
            unresolved=resolver.unresolved,
        )
    except MissingValueError as error:
        raise (ConfigError(file, problems) if problems else error) from error
    except ConfigError as error:
        raise ConfigError(file, [*(problems or missing), *error.problems]) from error
    if problems:
        raise ConfigError(file, problems)
    return replace(config, warnings=(*flat.warnings, *config.warnings))


def read_bytes(file: str) -> bytes:
    """Reads the content of *file*.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        return Path(file).read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(file, ["no such file; check the path after --config"]) from error
    except OSError as error:
        raise ConfigError(
            file, [f"cannot be read ({error.strerror}); name a file that this user can read"]
        ) from error
    except ValueError as error:  # a null character
        raise ConfigError(file, [f"not a path: {error}"]) from error


def read_settings(file: str) -> FlatSettings:
    """Reads the settings in *file* as they are written: no reference is resolved.

    Raises:
        ConfigError: The file cannot be read, or is none of this mirror's.
    """
    content = read_bytes(file)
    advice = f"python -m replication import {file} --output FILE.yaml"
    other = ConfigError(file, [f"is a resource of Strimzi or a connector; convert it: {advice}"])
    if b"kafka.strimzi.io" in content or b'"connector.class"' in content:
        raise other
    try:
        flat = flat_settings(content, is_properties=file.endswith(".properties"))
    except ValueError as error:
        raise ConfigError(file, [str(error)]) from error
    if "connector.class" in flat.settings and "clusters" not in flat.settings:
        raise other  # a file of connect-standalone
    return flat


def setting_line(name: str, raw: Raw) -> str:
    """Returns the line of YAML that sets the key *name*."""
    return f"{yaml_scalar(name)}: {_value(name, raw)}"


def _value(name: str, raw: Raw) -> str:
    if name in KEYS and KEYS[name].kind in _LISTS:
        return f"[{', '.join(map(_quoted, items(raw)))}]"
    return yaml_scalar(text(raw).strip() if name in KEYS else text(raw))


def _quoted(value: str) -> str:
    """Returns an item of a list: plain if it is a word that YAML takes for no boolean or null."""
    is_word = re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", value)
    return yaml_scalar(value, style=None if is_word else "'")


def yaml_scalar(value: str, style: str | None = None) -> str:
    if _PLAIN_YAML.fullmatch(value):
        return value
    is_odd = not value.isprintable()
    dumped = yaml.safe_dump(
        value, default_style='"' if is_odd else style, width=2**31, allow_unicode=not is_odd
    )
    return str(dumped).removesuffix("\n").removesuffix("\n...")
