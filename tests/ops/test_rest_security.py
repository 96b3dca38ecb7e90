"""Who is answered, and what an answer can do in a browser."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from replication.config.clients.secrets import MASK
from replication.errors import SetupError, StateError
from replication.serve.run import open_listener
from replication.serve.snapshots import FlowSnapshot
from replication.serve.tokens import new_token
from tests.support.cli import run
from tests.support.local import PYTHON, REPOSITORY
from tests.support.serving import EVIL, Served, bearer, observed, serving
from tests.support.settings import ONE_FLOW, parse_settings

STOP = "/api/v1/flows/A/B/stop"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def open_to_all(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, lambda flow: FlowSnapshot(flow, observed())) as served:
        yield served


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[Served, str, str]]:
    """A server with tokens, and a token of each role."""
    (reader, read), (writer, write) = new_token("ann", "read"), new_token("bob", "write")
    file = tmp_path / "tokens"
    file.write_text(f"# who may ask\n{reader.line()}\n{writer.line()}\n", encoding="utf-8")
    file.chmod(0o600)
    (tmp_path / "state").mkdir()
    settings = [f"rest.tokens.file: {file}"]
    with serving(tmp_path, lambda flow: FlowSnapshot(flow, observed()), settings) as served:
        yield served, read, write


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "169.254.0.1"])
def test_a_name_that_is_not_ours_is_misdirected(open_to_all: Served, host: str) -> None:
    for path in ("/", "/api/v1/flows", "/livez", "/static/app.js"):
        assert open_to_all.ask(path, headers={"Host": host}).status == 421


@pytest.mark.parametrize("host", ["LOCALHOST:1", "[::1]:99", "127.0.0.1"])
def test_loopback_has_three_names(open_to_all: Served, host: str) -> None:
    assert open_to_all.ask("/livez", headers={"Host": host}).status == 200


def test_without_tokens_nobody_may_write(open_to_all: Served) -> None:
    found = open_to_all.ask(STOP, "POST", '{"dry_run": false}', JSON)
    assert (found.status, found.json["code"]) == (403, "read-only")
    assert "stop this flow" not in open_to_all.ask("/flows/A/B").text


def test_with_tokens_nobody_reads_without_one(guarded: tuple[Served, str, str]) -> None:
    served, read, _ = guarded
    refused = served.ask("/api/v1/flows")
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert served.ask("/metrics").status == 401
    assert served.ask("/openapi.json").status == 401
    page = served.ask("/events?flow=x")
    assert (page.status, page.headers["location"]) == (303, "/login?next=/events")
    assert served.ask("/livez").status == 200
    assert served.ask("/api/v1/flows", headers=bearer(read)).status == 200


def test_a_wrong_token_is_answered_later_each_time(guarded: tuple[Served, str, str]) -> None:
    served, _, _ = guarded
    seconds = []
    for _ in range(3):
        begin = time.monotonic()
        assert served.ask("/api/v1/flows", headers=bearer("wrong")).status == 401
        seconds.append(time.monotonic() - begin)
    assert seconds[2] >= 0.8
    assert seconds[0] >= 0.2


def test_only_the_role_write_may_change_something(guarded: tuple[Served, str, str]) -> None:
    served, read, write = guarded
    assert served.ask(STOP, "POST", "{}", {**JSON, **bearer(read)}).status == 403
    found = served.ask(STOP, "POST", "{}", {**JSON, **bearer(write)})
    assert (found.status, found.json["code"]) == (404, "no-answer")  # no job ever began


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(
    guarded: tuple[Served, str, str], headers: dict[str, str]
) -> None:
    served, _, write = guarded
    found = served.ask(STOP, "POST", "{}", {**JSON, **bearer(write), **headers})
    assert (found.status, found.json["code"]) == (403, "cross-site")


def test_a_form_needs_the_token_of_its_page(guarded: tuple[Served, str, str]) -> None:
    served, _, write = guarded
    cookie = {"Cookie": f"replication-token={write}"}
    form = {"Content-Type": "application/x-www-form-urlencoded", **cookie}
    found = served.ask("/flows/A/B/stop", "POST", "confirmed=yes&form_token=0", form)
    assert found.status == 403
    page = served.ask("/flows/A/B", headers=cookie).text
    token = page.partition('name="form_token" value="')[2].partition('"')[0]
    found = served.ask("/flows/A/B/stop", "POST", urlencode({"form_token": token}), form)
    assert found.status == 404  # the form is ours; no job ever began


def test_a_cookie_is_for_this_server_alone(guarded: tuple[Served, str, str]) -> None:
    served, read, _ = guarded
    page = served.ask("/login?next=//evil.example").text
    token = page.partition('name="form_token" value="')[2].partition('"')[0]
    form = {"form_token": token, "token": read, "next": "//evil.example"}
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    found = served.ask("/login", "POST", urlencode(form), headers)
    assert (found.status, found.headers["location"]) == (303, "/")
    assert "HttpOnly" in found.headers["set-cookie"]
    assert "SameSite=strict" in found.headers["set-cookie"]


def test_a_text_of_a_topic_is_a_text_on_a_page(open_to_all: Served) -> None:
    for path in ("/", "/flows/A/B"):
        page = open_to_all.ask(path)
        assert EVIL not in page.text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert page.headers["x-content-type-options"] == "nosniff"


def test_too_much_and_too_late_is_ended(open_to_all: Served) -> None:
    assert open_to_all.ask("/login", "POST", b"x" * 16_385).status == 413
    host, _, port = open_to_all.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")  # and never the rest
        assert connection.recv(1000) == b""


def test_half_a_request_behind_a_whole_one_is_ended_too(open_to_all: Served) -> None:
    host, _, port = open_to_all.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /li")
        assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
        while connection.recv(10_000):
            pass


def test_a_secret_of_the_file_is_in_no_answer(tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = [
        "A.security.protocol: SASL_PLAINTEXT",
        "A.sasl.mechanism: PLAIN",
        f'A.sasl.jaas.config: {module} required username="u" password="hush-hush";',
        "hadoop.fs.s3a.secret.key: hush-hush",
    ]
    with serving(tmp_path, lambda flow: FlowSnapshot(flow, observed()), settings) as served:
        paths = ("/configuration?q=jaas", "/api/v1/configuration?limit=1000", "/api/v1/clusters")
        found = [served.ask(path).text for path in paths]
        live = served.ask("/flows/A/B/topics/orders-00000?live=true").text
    assert all("hush-hush" not in text for text in [*found, live])
    assert MASK in found[1]


def test_a_file_of_tokens_that_others_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(new_token("ann", "read")[0].line(), encoding="utf-8")
    file.chmod(0o644)
    with (
        pytest.raises(SetupError, match=r"every user of this machine may read .*chmod o="),
        serving(tmp_path, FlowSnapshot, [f"rest.tokens.file: {file}"]),
    ):
        pass


def test_a_token_counts_from_the_next_request_on_and_no_longer_than_its_line(
    guarded: tuple[Served, str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (served, read, write), file = guarded, tmp_path / "tokens"
    made = run("token", "eve", "--role", "read", "--file", str(file))
    first, second, third = file.read_text().splitlines()[1:]

    def status(secret: str) -> int:
        return served.ask("/api/v1/flows", headers=bearer(secret)).status

    added = made.stdout.strip()
    assert [status(read), status(write), status(added)] == [200, 200, 200]
    file.write_text(f"{second}\n{third}\n", encoding="utf-8")
    assert [status(read), status(write), status(added)] == [401, 200, 200]
    caplog.clear()
    file.write_text(f"{first}\nwhat is this\n", encoding="utf-8")
    assert [status(write), status(added)] == [200, 200]
    (kept,) = [text for text in caplog.messages if "tokens_kept" in text]
    assert "line 2: write name:role:sha256" in kept
    assert first.rpartition(":")[2] not in kept
    file.write_text("# nobody\n", encoding="utf-8")
    assert [status(write), status(added)] == [401, 401]


def test_a_file_without_a_token_is_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# nobody\n", encoding="utf-8")
    file.chmod(0o600)
    with (
        pytest.raises(SetupError, match="there is no token; make one: replication token NAME"),
        serving(tmp_path, FlowSnapshot, [f"rest.tokens.file: {file}"]),
    ):
        pass


def test_a_port_that_is_taken_is_said_with_the_next_step(open_to_all: Served) -> None:
    port = open_to_all.host.partition(":")[2]
    taken = parse_settings(ONE_FLOW).serve.with_address(None, int(port))
    with pytest.raises(SetupError, match=rf"port {port}: Address already in use; end what"):
        open_listener(taken)


def test_a_token_is_printed_once_and_kept_as_a_digest(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    made = run("token", "ann", "--role", "write", "--file", str(file))
    assert made.exit_code == 0
    secret = made.stdout.strip()
    assert secret not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    again = run("token", "ann", "--file", str(file))
    assert again.exit_code == 2
    assert "a second token of 'ann'" in again.stderr
    assert file.read_text().count("\n") == 1


@pytest.mark.parametrize("end", ["\n", ""])
def test_a_file_of_tokens_stays_whose_it_is(tmp_path: Path, end: str) -> None:
    file, link = tmp_path / "tokens", tmp_path / "link"
    first = new_token("ann", "read")[0].line()
    file.write_text(f"# ours\n\n{first}{end}", encoding="utf-8")
    file.chmod(0o640)
    if os.getuid() == 0:
        os.chown(file, 185, 42)
    link.symlink_to(file)
    before = file.stat()

    assert run("token", "bob", "--file", link).exit_code == 0

    after = file.stat()
    kept = [(at.st_uid, at.st_gid, at.st_mode, at.st_ino) for at in (before, after)]
    assert kept[0] == kept[1]
    assert link.is_symlink()
    assert file.read_text().startswith(f"# ours\n\n{first}\nbob:read:")
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_a_full_disk_leaves_the_tokens_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    line = new_token("ann", "read")[0].line()
    before = f"{line}\n{'#' * (1024 - 20 - len(line))}\n"
    file.write_text(before, encoding="utf-8")
    command = f"{PYTHON} -m replication token bob --file {file}"
    bounded = ["bash", "-c", f"ulimit -f 1; trap '' XFSZ; {command}"]

    made = subprocess.run(bounded, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert (made.returncode, made.stdout) == (StateError.exit_code, ""), made.stderr
    assert f"{file} cannot be written" in made.stderr
    assert file.read_text() == before
