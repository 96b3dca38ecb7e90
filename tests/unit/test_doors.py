"""Who may speak to a job: settings that close its doors, and the warnings about open ones."""

import pytest

from replication.spark.doors import closed, open_doors

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
SECRET = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what the rules are about
FILES = {"spark.io.encryption.enabled": "true"}


@pytest.mark.parametrize(
    ("master", "given", "expected"),
    [
        ("local[4]", {}, {**LOOPBACK, **SECRET}),
        ("local", {"spark.driver.bindAddress": EVERYWHERE}, {"spark.driver.host": "127.0.0.1"}),
        ("local[*]", {"spark.driver.host": "db.example.com"}, {}),
        ("yarn", {}, {**SECRET, **FILES}),
        ("yarn", {"spark.shuffle.service.enabled": "false"}, {**SECRET, **FILES}),
        ("k8s://https://example.com", {}, {**SECRET, **FILES}),
    ],
)
def test_doors_are_closed_where_spark_makes_the_secret(
    master: str, given: dict[str, str], expected: dict[str, str]
) -> None:
    is_addressed = master.startswith("local") and given
    assert closed(master, given) == ({**expected, **SECRET} if is_addressed else expected)


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,1024]", None])
def test_where_a_user_makes_the_secret_nothing_is_set(master: str | None) -> None:
    assert closed(master, {}) == {}


def test_a_users_own_settings_win() -> None:
    assert closed("yarn", {"spark.authenticate": "false"}) == FILES
    assert closed("yarn", {"spark.shuffle.service.enabled": "true"}) == {}
    assert closed("k8s://h", {**SECRET, "spark.io.encryption.enabled": "false"}) == {}


def test_what_closed_sets_leaves_no_door_open() -> None:
    for master in ("local[2]", "yarn", "k8s://https://example.com"):
        assert open_doors(master, {**closed(master, {}), "spark.ui.enabled": "false"}, {}) == []


@pytest.mark.parametrize(
    ("master", "more", "step"),
    [
        ("local[2]", {"spark.authenticate": "false"}, "leave it out"),
        ("local[2]", {"spark.driver.bindAddress": EVERYWHERE}, "spark.driver.bindAddress out"),
        ("local[2]", {"spark.ui.enabled": "true"}, "SPARK_LOCAL_IP=127.0.0.1"),
        ("yarn", {"spark.shuffle.service.enabled": "true", "spark.authenticate": "false"}, "node"),
        ("yarn", {"spark.network.crypto.enabled": "false"}, "spark.network.crypto.enabled=true"),
        ("k8s://h", {"spark.authenticate": "false"}, "leave it out"),
        ("spark://h:7077", {}, "conf/deploy/standalone/README.md"),
    ],
)
def test_an_open_door_is_said_with_the_step_that_closes_it(
    master: str, more: dict[str, str], step: str
) -> None:
    settings = {"spark.ui.enabled": "false", **closed(master, {}), **more}

    (text,) = open_doors(master, settings, {})

    assert step in text


def test_a_page_on_this_machine_only_is_no_open_door() -> None:
    settings = {**closed("local", {}), "spark.ui.enabled": "true"}

    assert open_doors("local", settings, {"SPARK_LOCAL_IP": "127.0.0.1"}) == []
