"""``keys``: what a key means. ``acls``: the ACLs that a file needs."""

import re
import sys
from collections.abc import Iterator
from typing import Final

import click

from replication.cli.options import FILE, echo, known_errors
from replication.cli.with_changes import with_changes
from replication.config.file import load_config
from replication.config.keys import KEYS, reference, search
from replication.config.tree import MirrorConfig
from replication.config.values import closest
from replication.control.clients import principals_of, servers_of
from replication.errors import ConfigError, NoAnswerError
from replication.topics.acls import Grants, camel, describe_acls, needed_acls


@click.command()
@click.argument("pattern", default="")
@click.option("--reference", "whole", is_flag=True, help="Print conf/reference.yaml.")
def keys(pattern: str, *, whole: bool) -> None:
    """Look up configuration keys by a part of their names.

    Shows default, limits and meaning of each key whose name contains PATTERN, MirrorMaker 2's keys
    without effect and client properties among them; without PATTERN, all keys of the mirror.
    """
    if whole:
        echo(reference(), nl=False)
        return
    found = list(search(pattern))
    if not found:
        other = closest(pattern, KEYS, 0.5)
        hint = f"; the most similar one is {other}" if other else ""
        echo(f"no key contains {pattern!r}{hint}", err=True)
        sys.exit(NoAnswerError.exit_code)
    echo("\n\n".join(found))


# ``acls``: the access that the mirror's users need, as commands, for Strimzi or for Terraform.

FORMATS: Final = ("kafka-acls", "strimzi", "terraform")
UNKNOWN: Final = "User:MIRROR"


@click.command()
@FILE
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="Lines of kafka-acls, Strimzi's KafkaUser resources, or Terraform's kafka_acl resources.",
)
@click.option(
    "--principal",
    "given",
    multiple=True,
    metavar="ALIAS=USER",
    help="The mirror's user on a cluster, such as B=User:mirror; default: that of its login.",
)
@click.option(
    "--failover",
    is_flag=True,
    help="Add what apply-offsets needs to commit the groups' offsets on either cluster.",
)
@known_errors
def acls(file: str, form: str, given: tuple[str, ...], *, failover: bool) -> None:
    """Print the ACLs that the mirror's users need.

    Contacts no cluster; the lists are those in force. ACLs support only names and prefixes, so a
    regular expression is reduced to its literal prefix.
    """
    config = with_changes(load_config(file))
    principals = {**principals_of(config), **_given(file, config, given)}
    servers = servers_of(config)
    for alias, grants in needed_acls(config, failover=failover).items():
        principal = principals.get(alias, UNKNOWN)
        echo(f"# cluster {alias}")
        if principal == UNKNOWN:
            echo(f"# write your user for {UNKNOWN}, or pass --principal {alias}=User:NAME")
        match form:
            case "strimzi":
                lines = _strimzi(grants, principal)
            case "terraform":
                lines = _terraform(grants, principal, alias)
            case _:
                lines = describe_acls(grants, principal, servers[alias])
        for line in lines:
            echo(line)
        echo()


def _given(file: str, config: MirrorConfig, given: tuple[str, ...]) -> dict[str, str]:
    principals = dict(item.split("=", 1) for item in given if "=" in item)
    wrong = [item for item in given if item.partition("=")[0] not in config.clusters]
    wrong += [item for item in given if "=" not in item]
    if wrong:
        problem = f"--principal {wrong[0]}: write ALIAS=USER, such as B=User:mirror"
        raise ConfigError(file, [problem])
    return {
        alias: user if ":" in user.partition("=")[0] else f"User:{user}"
        for alias, user in principals.items()
    }


def _strimzi(grants: Grants, principal: str) -> Iterator[str]:
    name = re.sub(r"[^a-z0-9.-]+", "-", principal.partition(":")[2].lower()).strip("-.")
    yield "apiVersion: kafka.strimzi.io/v1beta2"
    yield "kind: KafkaUser"
    yield f"metadata: {{name: {name}, labels: {{strimzi.io/cluster: YOUR-CLUSTER}}}}"
    yield "spec:"
    yield "  authorization:"
    yield "    type: simple"
    yield "    acls:"
    for resource, operations in grants.items():
        names = ", ".join(camel(operation) for operation in operations)
        what = f"type: {resource.kind}"
        if resource.kind != "cluster":
            pattern = "prefix" if resource.pattern == "PREFIXED" else "literal"
            what += f', name: "{resource.name}", patternType: {pattern}'
        yield f"      - resource: {{{what}}}"
        yield f"        operations: [{names}]"
    yield "---"


def _terraform(grants: Grants, principal: str, alias: str) -> Iterator[str]:
    for resource, operations in grants.items():
        for operation in operations:
            label = re.sub(r"\W+", "_", f"{alias}_{resource.kind}_{resource.name}_{operation}")
            label += "_prefixed" if resource.pattern == "PREFIXED" else ""
            yield f'resource "kafka_acl" "{label.lower()}" {{'
            yield f'  resource_name                = "{resource.name}"'
            yield f'  resource_type                = "{resource.kind.capitalize()}"'
            yield f'  resource_pattern_type_filter = "{resource.pattern.capitalize()}"'
            yield f'  acl_principal                = "{principal}"'
            yield '  acl_host                     = "*"'
            yield f'  acl_operation                = "{camel(operation)}"'
            yield '  acl_permission_type          = "Allow"'
            yield "}"
