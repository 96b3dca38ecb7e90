"""What becomes of schema ids in a flow's records, and the registries that know them. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from replication.config.client_keys import MASK
from replication.config.config_key import NOT_MM2, choice, names, patterns, text
from replication.config.values import items
from replication.config.values import text as written
from replication.mm2.filters import NameFilter
from replication.model import Flow

SchemasMode = Literal["none", "preserve", "translate"]
"""What becomes of schema ids: nothing; the target's registry gets them; records get others."""

Unframed = Literal["copy", "fail"]
"""What becomes of a record of a named topic that carries no id."""

MODE: Final = "replication.schemas"
TOPICS: Final = "replication.schemas.topics"
UNFRAMED: Final = "replication.schemas.unframed"
URL: Final = "schema.registry.url"
USER: Final = "schema.registry.basic.auth.user.info"
TRUSTED: Final = "schema.registry.ssl.truststore.location"
OWN: Final = "schema.registry.ssl.keystore.location"
PASSWORD: Final = "schema.registry.ssl.key.password"  # noqa: S105 - a key's name

REGISTRY_KEYS: Final = (URL, USER, TRUSTED, OWN, PASSWORD)
EXAMPLE: Final = "http://registry-1:8081"


@dataclass(frozen=True, kw_only=True)
class RegistryConfig:
    """One cluster's schema registry; without ``urls`` the file names none.

    Only the repr is without secrets.
    """

    urls: Annotated[
        tuple[str, ...],
        names(
            URL,
            "addresses of the cluster's schema registry, asked in this order; one that ends with "
            "/contexts/.NAME is a context of it",
        ).of_cluster(),
    ]
    user: Annotated[
        str, text(USER, "user and password at the registry, as user:password").of_cluster()
    ] = field(repr=False)
    trusted: Annotated[
        str,
        text(
            TRUSTED,
            "file on the driver's machine with the certificates in PEM that sign the registry's; "
            "by default the machine's own",
        ).of_cluster(),
    ]
    own: Annotated[
        str,
        text(
            OWN,
            "file on the driver's machine with our certificate and its key in PEM, if the registry "
            "asks for one",
        ).of_cluster(),
    ]
    password: Annotated[str, text(PASSWORD, "the password of that key").of_cluster()] = field(
        repr=False
    )


@dataclass(frozen=True, kw_only=True)
class SchemasConfig:
    """What becomes of the schema ids of one flow's records."""

    mode: Annotated[
        SchemasMode,
        choice(
            MODE,
            SchemasMode,
            "none",
            "what becomes of schema ids: none leaves them, preserve registers the schemas at the "
            "target under their own ids, translate puts the target's ids into the records",
            NOT_MM2,
        ),
    ]
    topics: Annotated[
        tuple[str, ...],
        patterns(
            TOPICS,
            "",
            "topics whose records carry schema ids: names or regexes; five bytes that begin with "
            "zero are no proof of one",
            NOT_MM2,
        ),
    ]
    unframed: Annotated[
        Unframed,
        choice(
            UNFRAMED,
            Unframed,
            "copy",
            "what becomes of a record of these topics without an id, with translate: copy it as it "
            "is, or fail, which sets its topic aside",
            NOT_MM2,
        ),
    ]
    source_registry: RegistryConfig
    target_registry: RegistryConfig

    def names(self, topic: str) -> bool:
        """Returns whether records of *topic* of the source carry schema ids."""
        return self.mode != "none" and NameFilter(self.topics, ()).accepts(topic)


def schema_problems(
    flow: Flow, schemas: SchemasConfig, given: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yields the key, without its scope (a cluster's begins with its alias), and its problem."""
    if schemas.mode == "none":
        for key in (TOPICS, UNFRAMED):
            if key in given:
                yield key, f"has no effect without {flow}.{MODE}; write preserve or translate there"
        return
    if not schemas.topics:
        yield TOPICS, f"missing; name the topics whose records carry schema ids, for {schemas.mode}"
    if UNFRAMED in given and schemas.mode == "preserve":
        yield UNFRAMED, "has no effect with preserve, which changes no record; remove it"
    registries = schemas.source_registry, schemas.target_registry
    for alias, registry in zip((flow.source, flow.target), registries, strict=True):
        if not registry.urls:
            text = f"missing; {flow}.{MODE} is {schemas.mode}: write for example {EXAMPLE}"
            yield f"{alias}.{URL}", text
    if set(registries[0].urls) & set(registries[1].urls):
        text = f"is {flow.source}'s registry, so that ids mean the same on both; write {MODE}: none"
        yield f"{flow.target}.{URL}", text


def registry_problems(registry: RegistryConfig) -> Iterator[tuple[str, str]]:
    """Yields the key, without the cluster's alias, and what is wrong with a registry's values."""
    for url in registry.urls:
        if (problem := _url_problem(url)) is not None:
            yield URL, problem
    if registry.user and ":" not in registry.user:
        yield USER, f"{MASK} has no colon; write user:password"
    if registry.password and not registry.own:
        yield PASSWORD, f"has no effect without {OWN}"
    if registry.user and not registry.urls:
        yield USER, f"has no effect without {URL}"
    for key, value in ((TRUSTED, registry.trusted), (OWN, registry.own)):
        if value and (problem := _file_problem(registry.urls, value)) is not None:
            yield key, problem


def _file_problem(urls: Collection[str], file: str) -> str | None:
    if not urls:
        return f"has no effect without {URL}"
    if not all(url.startswith("https:") for url in urls):
        return f"has no effect: {URL} begins with http:; write https: there"
    if file.endswith((".jks", ".p12", ".pfx")):
        return "is a store of Java's; write a file in PEM, as openssl makes it"
    return None


def _url_problem(url: str) -> str | None:
    """Returns what is wrong with *url*, and nothing of what it says; None if nothing is."""
    if "@" in url:
        return f"has a user or a password in it; write those as {USER}"
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host, parts = False, urlsplit("")
    if not has_host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        return f"is no address of a registry; write for example {EXAMPLE}"
    return None


def registry_of(settings: Mapping[str, str | tuple[str, ...]]) -> RegistryConfig:

    def one(key: str) -> str:
        return written(settings.get(key, ""))

    return RegistryConfig(
        urls=tuple(url.rstrip("/") for url in items(settings.get(URL, ""))),
        user=one(USER),
        trusted=one(TRUSTED).strip(),
        own=one(OWN).strip(),
        password=one(PASSWORD),
    )
