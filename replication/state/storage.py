"""What reads and writes a state directory, and with which credentials: one rule for all processes.

Pure: it looks at the state directory's scheme, at Hadoop's properties for it, and at what the
configuration asks for. delta-rs is the choice wherever it gets the credentials that Hadoop would
use and its commits are safe beside each other; Spark is for everything else.
"""

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import urlparse

from replication.config.state_access import StateAccess
from replication.errors import SetupError
from replication.state.folder import local_path
from replication.state.stored_table import Engine

OUT_OF_REACH: Final = frozenset("%[]^|\\")
"""Characters of a folder's name that delta-rs decodes twice, or cannot take at all."""

_S3A: Final = "fs.s3a."
_DIRECT: Final = {
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
    "endpoint.region": "aws_region",
}
_PROVIDERS: Final = frozenset(
    {
        "SimpleAWSCredentialsProvider",
        "TemporaryAWSCredentialsProvider",
        "EnvironmentVariableCredentialsProvider",
        "IAMInstanceCredentialsProvider",
        "InstanceProfileCredentialsProvider",
        "ContainerCredentialsProvider",
        "WebIdentityTokenFileCredentialsProvider",
        "WebIdentityTokenCredentialsProvider",
        "StaticCredentialsProvider",
    }
)
"""Of Hadoop and of Amazon's library: delta-rs finds the same credentials by itself."""

_ANONYMOUS: Final = "AnonymousAWSCredentialsProvider"
_ONLY_HADOOP: Final = (
    "hadoop.security.credential.provider.path",
    "fs.s3a.security.credential.provider.path",
    "fs.s3a.delegation.token.binding",
    "fs.s3a.assumed.role.arn",
    "fs.s3a.encryption.algorithm",
    "fs.s3a.server-side-encryption-algorithm",
    "fs.s3a.proxy.host",
)
"""Properties that change how S3 is reached, and that are not translated."""

_KEYS_OF_HDFS: Final = ("hadoop.security.key.provider.path", "dfs.encryption.key.provider.uri")
_S3A_CLASS: Final = "S3AFileSystem"
_DATABRICKS: Final = "DATABRICKS_RUNTIME_VERSION"


Way = tuple[str, dict[str, str], Iterator[str]]
"""A state directory as delta-rs takes it, what that needs to reach it, and what keeps it away."""


@dataclass(frozen=True, slots=True)
class Storage:
    """How a process reaches a state directory.

    Args:
        access: What the configuration says.
        engine: What reads and writes the tables.
        why: The reason, for people.
        root: The path or URI as delta-rs takes it.
        options: What delta-rs needs to reach it; may hold secrets.
    """

    access: StateAccess
    engine: Engine
    why: str
    root: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether the directory is on this machine."""
        return local_path(self.access.state_dir) is not None

    @property
    def is_quick(self) -> bool:
        """Whether the tables answer in milliseconds, since no Spark job reads or writes them."""
        return self.engine == "delta-rs"

    @property
    def has_objects(self) -> bool:
        """Whether requests are read and written without Hadoop's client, as the tables are."""
        return self.is_quick and self.root.startswith("s3:")

    def uri(self, table: str) -> str:
        """Returns the path or URI of *table* as delta-rs takes it."""
        return f"{self.root}/{table}"


def storage_of(access: StateAccess, site: Mapping[str, str], environ: Mapping[str, str]) -> Storage:
    """Returns how *access* is reached.

    Args:
        access: What the configuration says.
        site: The properties in Hadoop's own files.
        environ: The variables of the process.

    Raises:
        SetupError: The configuration asks for delta-rs where it cannot be used.
    """
    state_dir = access.state_dir.rstrip("/")
    scheme = urlparse(state_dir).scheme
    way = _WAYS.get(scheme, _by_spark)
    root, options, obstacles = way(access, {**site, **access.hadoop}, environ)
    obstacle = next(obstacles, "")
    if access.engine == "spark":
        return Storage(access, "spark", "state.engine says so", root)
    if obstacle and access.engine == "delta-rs":
        raise SetupError(f"state.engine is delta-rs, but {obstacle}; write auto or spark")
    if obstacle:
        return Storage(access, "spark", obstacle, root)
    return Storage(access, "delta-rs", f"it reaches {scheme or 'file'}:", root, options)


def _on_this_machine(
    access: StateAccess, _properties: Mapping[str, str], _environ: Mapping[str, str]
) -> Way:
    folder = str(local_path(access.state_dir.rstrip("/")))
    odd = sorted(OUT_OF_REACH.intersection(folder))
    text = f"delta-rs takes no folder with {''.join(odd)} in its name"
    return folder, {}, iter([text] if odd else [])


def _in_s3(access: StateAccess, properties: Mapping[str, str], environ: Mapping[str, str]) -> Way:
    state_dir = access.state_dir.rstrip("/")
    parts = urlparse(state_dir)
    properties = _of_bucket(properties, parts.netloc)
    obstacles = chain(_odd_name(state_dir), _s3_obstacles(properties, parts.scheme, environ))
    root = f"s3:{state_dir.partition(':')[2]}"
    return root, _s3_options(properties, parts.netloc), obstacles


def _in_hdfs(
    access: StateAccess, properties: Mapping[str, str], _environ: Mapping[str, str]
) -> Way:
    state_dir = access.state_dir.rstrip("/")
    options = {name: value for name, value in access.hadoop.items() if "s3a" not in name}
    host = urlparse(state_dir).netloc
    return state_dir, options, chain(_odd_name(state_dir), _hdfs_obstacles(properties, host))


def _by_spark(
    access: StateAccess, _properties: Mapping[str, str], _environ: Mapping[str, str]
) -> Way:
    state_dir = access.state_dir.rstrip("/")
    return state_dir, {}, iter([f"delta-rs is not tried with {urlparse(state_dir).scheme}: here"])


# scheme     tables by       requests beside them   of two commits with one number
# file       delta-rs        the file system        a kernel lock lets the second one wait
# s3, s3a    delta-rs        obstore                the log lets one win, the other is repeated
# hdfs       delta-rs        Hadoop's client        the same
# others     Spark's Delta   Hadoop's client        the same
#
# Where a way meets an obstacle, or state.engine says so, it is as for the others; requests and
# locks of ``file`` stay what they are.
_WAYS: Final[Mapping[str, Callable[[StateAccess, Mapping[str, str], Mapping[str, str]], Way]]] = {
    "": _on_this_machine,
    "file": _on_this_machine,
    "s3": _in_s3,
    "s3a": _in_s3,
    "hdfs": _in_hdfs,
}


def _odd_name(uri: str) -> Iterator[str]:
    if odd := sorted(set("%#?").intersection(uri)):
        yield f"delta-rs would read another folder than one with {''.join(odd)} in its name"


def _hdfs_obstacles(properties: Mapping[str, str], host: str) -> Iterator[str]:
    if properties.get("hadoop.security.authentication", "simple") != "simple":
        yield "only Hadoop's client has the job's Kerberos ticket and renews its tokens"
    for name in _KEYS_OF_HDFS:
        if properties.get(name):
            yield f"{name} is set: only Hadoop's client reads encrypted files"
    host = host or urlparse(properties.get("fs.defaultFS", "")).netloc
    names = properties.get("dfs.nameservices", "").split(",")
    if not host or (":" not in host and host not in names):
        yield f"no file in HADOOP_CONF_DIR says where the name node of hdfs://{host} is"


def _s3_obstacles(
    properties: Mapping[str, str], scheme: str, environ: Mapping[str, str]
) -> Iterator[str]:
    if _DATABRICKS in environ:
        yield "Databricks gives its credentials to Spark alone"
    implementation = properties.get(f"fs.{scheme}.impl", _S3A_CLASS)
    if not implementation.endswith(_S3A_CLASS):
        yield f"fs.{scheme}.impl is {implementation}, which has its own credentials"
    for name in _ONLY_HADOOP:
        if properties.get(name):
            yield f"{name} is set, which only Hadoop follows"
    for name in _providers(properties):
        if name not in _PROVIDERS and name != _ANONYMOUS:
            yield f"fs.s3a.aws.credentials.provider names {name}, which only Hadoop has"
    has_own_keys = properties.get("fs.s3a.access.key") and not properties.get(
        "fs.s3a.session.token"
    )
    if has_own_keys and environ.get("AWS_SESSION_TOKEN"):
        yield "AWS_SESSION_TOKEN of the environment would go with the keys of fs.s3a.access.key"
    for name, value in properties.items():
        if name.startswith(_S3A) and "${" in value:
            yield f"{name} refers to another property, which only Hadoop resolves"


def _providers(properties: Mapping[str, str]) -> list[str]:
    """Returns the classes that give Hadoop its credentials, without their packages."""
    classes = properties.get("fs.s3a.aws.credentials.provider", "").split(",")
    return [name.strip().rpartition(".")[2] for name in classes if name.strip()]


def _of_bucket(properties: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Returns *properties*; what they say of one *bucket* stands in place of what is for all."""
    own = f"{_S3A}bucket.{bucket}."
    special = {
        f"{_S3A}{name.removeprefix(own)}": value
        for name, value in properties.items()
        if name.startswith(own)
    }
    return {**properties, **special}


def _s3_options(properties: Mapping[str, str], bucket: str) -> dict[str, str]:
    """Translates Hadoop's properties into those of the library behind delta-rs."""
    options = {
        ours: value for name, ours in _DIRECT.items() if (value := properties.get(f"{_S3A}{name}"))
    }
    if _ANONYMOUS in _providers(properties):
        options["aws_skip_signature"] = "true"
    endpoint = properties.get(f"{_S3A}endpoint", "")
    if not endpoint or endpoint.endswith("amazonaws.com"):  # by its region
        region = endpoint.removeprefix("https://").removeprefix("s3.").partition(".")[0]
        if region and region not in {"amazonaws", "s3"}:
            options.setdefault("aws_region", region)
        return options
    if "://" not in endpoint:
        is_plain = properties.get(f"{_S3A}connection.ssl.enabled", "true").lower() == "false"
        endpoint = f"{'http' if is_plain else 'https'}://{endpoint}"
    if endpoint.startswith("http://"):
        options["aws_allow_http"] = "true"
    if properties.get(f"{_S3A}path.style.access", "false").lower() != "true":
        options["aws_virtual_hosted_style_request"] = "true"
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{bucket}.{host}"
    options["aws_endpoint"] = endpoint
    options.setdefault("aws_region", "us-east-1")  # a server of one's own asks for any
    return options


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


_SHIPPED = Path("__spark_conf__/__hadoop_conf__")
"""Where a driver on YARN finds the files of the host that submitted it."""

_CONTAINER = "CONTAINER_ID"
"""A variable that YARN gives each of its containers. Pods, which have SPARK_USER as well, act on
HDFS as the user of their process."""


def storage_for(access: StateAccess) -> Storage:
    """Returns how this process reaches *access*.

    Raises:
        SetupError: The configuration asks for delta-rs where it cannot be used, or a file of
            Hadoop's cannot be read.
    """
    if not access.state_dir.startswith("hdfs:"):
        return storage_of(access, hadoop_site(os.environ), os.environ)
    if "HADOOP_CONF_DIR" not in os.environ and _SHIPPED.is_dir():
        os.environ["HADOOP_CONF_DIR"] = str(_SHIPPED.absolute())
    storage = storage_of(access, hadoop_site(os.environ), os.environ)
    if storage.is_quick and _CONTAINER in os.environ and "SPARK_USER" in os.environ:
        # a container of YARN runs as the node manager's user, and acts as the one who submitted
        os.environ.setdefault("HADOOP_USER_NAME", os.environ["SPARK_USER"])
    return storage
