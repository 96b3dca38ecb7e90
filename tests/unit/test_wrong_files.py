"""A file that cannot be meant is refused at once: no traceback, no hang, no odd characters."""

import time
from pathlib import Path

import pytest

from replication.config.file import load
from replication.errors import SHOWN_PROBLEMS, ConfigError
from tests.support.settings import ONE_FLOW, load_file, parse_settings, problems_of

PROPERTIES = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n"
YAML = (
    "clusters: [A, B]\nA.bootstrap.servers: a:1\nB: {bootstrap.servers: b:1}\nA->B.enabled: true\n"
)

MOST_CPU_SECONDS = 30
"""Far more than a bounded search takes with coverage on a slow machine; others never end."""


def refused(folder: Path, content: str) -> str:
    began = time.process_time()
    with pytest.raises(ConfigError) as caught:
        load_file(folder, content)
    assert time.process_time() - began < MOST_CPU_SECONDS
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        pytest.param(PROPERTIES, "c.yaml", id="properties called YAML"),
        pytest.param(PROPERTIES, "mm2", id="properties without an ending"),
        pytest.param(YAML, "c.properties", id="YAML called properties"),
        pytest.param(YAML, "c", id="YAML without an ending"),
        pytest.param(PROPERTIES.replace("=", ": "), "c.properties", id="Java's colons"),
        pytest.param("# a comment: b\n\n" + PROPERTIES, "c.conf", id="a comment first"),
    ],
)
def test_the_content_decides_the_format(tmp_path: Path, content: str, name: str) -> None:
    (flow,) = load_file(tmp_path, content, name).flows

    assert str(flow.flow) == "A->B"
    assert flow.source.admin == {"bootstrap.servers": "a:1"}


def test_properties_may_be_in_latin_1(tmp_path: Path) -> None:
    content = f"# für alle\n{PROPERTIES}A.client.rack=käse\n"

    for encoding in ("iso-8859-1", "utf-8"):
        (flow,) = load_file(tmp_path, content.encode(encoding), "mm2.properties").flows
        assert flow.source.consumer["client.rack"] == "käse"


def test_the_last_of_equal_keys_counts_in_properties(tmp_path: Path) -> None:
    config = load_file(tmp_path, f"{PROPERTIES}topics=a\ntopics=b\n", "mm2.properties")

    assert config.flows[0].topics == ("b",)
    assert config.warnings == (
        "topics: set twice, on lines 5 and 6; the last one counts, as in Java",
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("a: " * 3000 + "b", "mapping values are not allowed", id="nested on a line"),
        pytest.param("{a: " * 3000 + "}" * 3000, "nested too deeply", id="3000 levels"),
        pytest.param("[" * 3000, "nested too deeply", id="3000 brackets"),
        pytest.param(YAML + "B: &m\n  <<: *m\n", "<< refers to itself", id="merged into itself"),
        pytest.param(
            "a0: &a0 {x: 1}\n"
            + "".join(
                f"a{n}: &a{n} {{{', '.join(f'k{i}: *a{n - 1}' for i in range(10))}}}\n"
                for n in range(1, 12)
            ),
            "settings; remove aliases",
            id="alias bomb",
        ),
        pytest.param(
            "a0: &a0 {}\n"
            + "".join(
                f"a{n}: &a{n} {{{', '.join(f'k{i}: *a{n - 1}' for i in range(10))}}}\n"
                for n in range(1, 12)
            ),
            "pairs; remove aliases",
            id="alias bomb without a setting",
        ),
        pytest.param(
            "a0: &a0 {x: 1}\n"
            + "".join(
                f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12)
            ),
            "pairs; remove aliases",
            id="merge bomb",
        ),
        pytest.param(
            YAML + "A: &m\n  ? [x]\n  : 1\nB:\n  <<: *m\n",
            "a key must be a plain string",
            id="a merged list as key",
        ),
        pytest.param(YAML + "topics: '(?u)x('\n", "not a supported pattern", id="pattern"),
        pytest.param("\0", "invalid YAML", id="null character"),
        pytest.param("%" * 100_000, "invalid YAML", id="no YAML"),
        pytest.param("a" + " " * 200_000, "must map keys", id="a long line"),
    ],
)
def test_a_file_beyond_any_use_is_refused_at_once(
    tmp_path: Path, content: str, expected: str
) -> None:
    assert expected in refused(tmp_path, content)


def test_a_null_character_in_a_path_is_a_problem() -> None:
    with pytest.raises(ConfigError, match="not a path"):
        load("a\0b", environ={}, default_state_dir="/state")


def test_a_file_writes_no_control_characters_to_the_terminal(tmp_path: Path) -> None:
    text = refused(tmp_path, YAML + '"top\\e[2Jics": a\n"A->B.\\u202eenabled": z\nenabled: "\\a"\n')
    config = parse_settings({**ONE_FLOW, "z\x1b[2J": "1", "A.z\x07": "1"})

    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert all(text.isprintable() for text in (*config.notes, *config.warnings))
    assert len(config.warnings) == 2


def test_many_problems_are_cut() -> None:
    error = ConfigError("c.yaml", [f"problem {number}" for number in range(3000)])

    lines = str(error).splitlines()
    assert lines[0] == "c.yaml has 3000 problem(s):"
    assert lines[-1] == "  and 2950 more"
    assert len(lines) == SHOWN_PROBLEMS + 2
    assert len(error.problems) == 3000


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"A.security.protocol": "SASL_SSL", "A.sasl.mechanism": "PLAIN"},
            "A.sasl.jaas.config: missing; PLAIN needs a login module with the user's credentials",
            id="no JAAS",
        ),
        pytest.param(
            {"A.sasl.mechanism": "PLAIN"},
            "A.sasl.mechanism: has no effect without A.security.protocol; write SASL_SSL or "
            "SASL_PLAINTEXT there",
            id="no protocol",
        ),
    ],
)
def test_security_by_halves_is_a_problem(settings: dict[str, str], expected: str) -> None:
    assert problems_of({**ONE_FLOW, **settings}) == [expected]


def test_security_that_a_file_switches_off_is_a_warning() -> None:
    settings = {"A.security.protocol": "PLAINTEXT", "A.ssl.truststore.type": "PEM"}

    assert parse_settings({**ONE_FLOW, **settings}).warnings == (
        "A.ssl.truststore.type: has no effect: A.security.protocol is PLAINTEXT",
    )
