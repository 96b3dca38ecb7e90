"""TLS of `serve` with real certificates: who is let in, and files that change while it runs."""

import contextlib
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from replication.errors import SetupError
from replication.serve.snapshots import FlowSnapshot
from tests.support.certificates import make_authority, make_pair
from tests.support.serving import Served, observed, serving

FLOWS = "/api/v1/flows"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two authorities, and pairs that they have signed."""
    folder = tmp_path_factory.mktemp("certificates")
    for authority in ("ca", "other-ca"):
        make_authority(folder, authority)
    for name, authority in (("server", "ca"), ("next", "ca"), ("ann", "ca"), ("eve", "other-ca")):
        make_pair(folder, name, authority)
    make_pair(folder, "late", "ca", days=0)  # it ends as it begins
    command = ["openssl", "pkey", "-aes256", "-passout", "pass:hush", "-in", "server.key"]
    command += ["-out", "encrypted.key"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def own(made: Path, tmp_path: Path) -> Path:
    """The folder of the files that `serve` reads, which a test may change."""
    folder = tmp_path / "tls"
    folder.mkdir()
    put(made, folder, "server")
    shutil.copy(made / "ca.pem", folder / "ca.pem")
    return folder


@contextlib.contextmanager
def served_by(own: Path, *settings: str) -> Iterator[Served]:
    tls = [f"rest.tls.certificate: {own / 'tls.crt'}", f"rest.tls.key: {own / 'tls.key'}"]
    with serving(
        own.parent, lambda flow: FlowSnapshot(flow, observed()), [*tls, *settings]
    ) as served:
        yield served


@pytest.fixture
def https(own: Path, made: Path) -> Iterator[Served]:
    with served_by(own) as served:
        yield replace(served, tls=client(made))


@pytest.fixture
def mutual(own: Path) -> Iterator[Served]:
    with served_by(own, f"rest.tls.client.ca: {own / 'ca.pem'}") as served:
        yield served


def test_a_client_that_trusts_the_authority_is_answered(https: Served, made: Path) -> None:
    assert https.url.startswith("https://127.0.0.1:")
    assert https.ask(FLOWS).json["total"] == 1
    with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get local"):
        replace(https, tls=client(made, "other-ca")).ask(FLOWS)


def test_an_old_protocol_is_refused(https: Served) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match=r"TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        replace(https, tls=old).ask(FLOWS)


def test_plain_http_gets_no_answer_and_ends_nothing(
    https: Served, caplog: pytest.LogCaptureFixture
) -> None:
    host, _, port = https.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"GET /api/v1/flows HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"HTTP/1.1 200" not in connection.recv(1000)
    assert https.ask(FLOWS).status == 200
    assert caplog.records == []


def test_a_certificate_of_the_authority_may_read_and_nothing_else(
    mutual: Served, made: Path
) -> None:
    ann = replace(mutual, tls=client(made, name="ann"))
    assert ann.ask(FLOWS).status == 200
    body = {"Content-Type": "application/json"}
    found = ann.ask(f"{FLOWS}/A/B/stop", "POST", '{"dry_run": false}', body)
    assert (found.status, found.json["code"]) == (403, "read-only")


@pytest.mark.parametrize("name", [None, "eve", "late"])
def test_no_certificate_or_a_wrong_one_is_refused(
    mutual: Served, made: Path, name: str | None
) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        replace(mutual, tls=client(made, name=name)).ask(FLOWS)
    assert replace(mutual, tls=client(made, name="ann")).ask("/livez").status == 200


def test_a_certificate_that_is_replaced_is_shown_to_the_next_client(
    https: Served, own: Path, made: Path
) -> None:
    assert shown(https) == pem(made, "server")
    put(made, own, "next")
    assert shown(https) == pem(made, "next")


def test_files_that_are_half_written_keep_the_old_ones_and_this_is_said_once(
    https: Served, own: Path, made: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "replication.serve.run")
    whole = (made / "next.crt").read_text()
    for part in (whole[:500], whole, ""):  # half of it, one of the two files, nothing
        (own / "tls.crt").write_text(part)
        assert shown(https) == pem(made, "server")
    (own / "tls.crt").unlink()
    assert https.ask(FLOWS).status == 200
    (line,) = caplog.messages
    assert "event=certificates_kept" in line
    assert "Connections get the certificates of before" in line
    put(made, own, "next")
    assert shown(https) == pem(made, "next")
    assert [text.partition(" text=")[0] for text in caplog.messages] == [
        "event=certificates_kept",
        "event=certificates_loaded",
    ]


def test_an_authority_that_is_replaced_decides_about_the_next_client(
    mutual: Served, own: Path, made: Path
) -> None:
    ann, eve = (replace(mutual, tls=client(made, name=name)) for name in ("ann", "eve"))
    assert ann.ask(FLOWS).status == 200
    shutil.copy(made / "other-ca.pem", own / "ca.pem")
    assert eve.ask(FLOWS).status == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ann.ask(FLOWS)


def test_a_key_that_others_may_read_is_refused(
    own: Path, https: Served, made: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(made, own, "next")
    (own / "tls.key").chmod(0o644)
    assert shown(https) == pem(made, "server")
    assert "every user of this machine may read" in caplog.text
    with (
        pytest.raises(SetupError, match=r"rest\.tls\.key: every user .* may read .*chmod o="),
        served_by(own),
    ):
        pass


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("next.key", "key values mismatch"),
        ("encrypted.key", "the key is encrypted, and nobody can be asked"),
        ("server.crt", "write a certificate and its own key in PEM"),
        (None, "No such file or directory"),
    ],
)
def test_what_cannot_be_loaded_is_said_before_anybody_asks(
    own: Path, made: Path, key: str | None, reason: str
) -> None:
    (own / "tls.key").unlink()
    if key is not None:
        shutil.copy(made / key, own / "tls.key")
        (own / "tls.key").chmod(0o600)
    with pytest.raises(SetupError, match=reason), served_by(own):
        pass


def client(made: Path, authority: str = "ca", name: str | None = None) -> ssl.SSLContext:
    """A client that trusts *authority*, and has the certificate *name*."""
    context = ssl.create_default_context(cafile=made / f"{authority}.pem")
    if name is not None:
        context.load_cert_chain(made / f"{name}.crt", made / f"{name}.key")
    return context


def put(made: Path, own: Path, name: str) -> None:
    """Replaces the files of `serve`, as a tool that renews certificates does."""
    for kind in ("crt", "key"):
        part = own / f"tls.{kind}.part"
        shutil.copy(made / f"{name}.{kind}", part)
        part.replace(own / f"tls.{kind}")


def shown(served: Served) -> str:
    """The certificate that the server shows now."""
    host, _, port = served.host.partition(":")
    return ssl.get_server_certificate((host, int(port)))


def pem(made: Path, name: str) -> str:
    return ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert((made / f"{name}.crt").read_text()))
