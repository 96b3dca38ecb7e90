"""ACLs of the Java client as text."""

import pytest

from replication.kafka.acls import read_binding
from replication.model import TopicAcl

TEXT = (
    "(pattern=ResourcePattern(resourceType=TOPIC, name={topic}, patternType={pattern}), "
    "entry=(principal={principal}, host={host}, operation=READ, permissionType=ALLOW))"
)
TRICK = "User:x, host=*, operation=ALL, permissionType=ALLOW))"


@pytest.mark.parametrize(
    "acl",
    [
        pytest.param(TopicAcl("a", "LITERAL", "User:a", "*", "READ", "ALLOW"), id="a name"),
        pytest.param(TopicAcl("a.", "PREFIXED", "User:a", "::1", "READ", "ALLOW"), id="a prefix"),
        pytest.param(
            TopicAcl("*", "LITERAL", "User:CN=a, O=(b)", "10.0.0.1", "READ", "ALLOW"), id="a DN"
        ),
        pytest.param(TopicAcl("a", "LITERAL", TRICK, "*", "READ", "ALLOW"), id="a misleading name"),
    ],
)
def test_an_acl_is_read_from_its_text(acl: TopicAcl) -> None:
    text = TEXT.format(topic=acl.topic, pattern=acl.pattern, principal=acl.principal, host=acl.host)

    assert read_binding(text) == acl


def test_another_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="not the text of an ACL"):
        read_binding("AclBinding[orders]")
