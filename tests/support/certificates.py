"""Certificates for the brokers and clients of the tests, made with keytool and openssl."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PASSWORD: Final = "of-the-stores-7h3"  # noqa: S105 - of nothing but these stores
"""Of every store and every encrypted key."""

HERE: Final = "IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True, slots=True)
class Certificates:
    """A folder with the stores of one certificate authority."""

    folder: Path

    @property
    def password(self) -> str:
        """Of every store and every encrypted key."""
        return PASSWORD

    def path(self, name: str) -> str:
        """The path of the file *name*."""
        return str(self.folder / name)


def make_certificates(folder: Path) -> Certificates:
    """Makes the stores that the tests need.

    ``broker``, ``expired``, ``soon`` (ends in days), ``elsewhere`` (another host's name),
    ``client`` as PKCS12;
    ``client.jks``; ``client.pem`` with an encrypted key, then the certificates; ``trust.p12``,
    ``trust.jks``, ``trust.pem`` with the authority's certificate; ``stranger.p12`` trusts another.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for authority in ("ca", "other-ca"):
        make_authority(folder, authority)
    (folder / "trust.pem").write_text((folder / "ca.pem").read_text())
    _trust(folder, "trust.p12", "PKCS12", "ca")
    _trust(folder, "trust.jks", "JKS", "ca")
    _trust(folder, "stranger.p12", "PKCS12", "other-ca")
    _signed(folder, "broker", HERE)
    _signed(folder, "expired", HERE, days=0)  # it ends as it begins
    _signed(folder, "soon", HERE, days=10)
    _signed(folder, "elsewhere", "DNS:elsewhere.example.com")
    _signed(folder, "client", HERE)
    _convert(folder, "client.p12", "client.jks", "JKS")
    _write_pem(folder, "client")
    return Certificates(folder)


def make_authority(folder: Path, name: str) -> None:
    """Makes a certificate authority: ``NAME.key`` and ``NAME.pem``."""
    _openssl(
        folder,
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "90"),
        *("-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out"),
        f"{name}.pem",
    )


def _signed(folder: Path, name: str, hosts: str, *, days: int = 90) -> None:
    make_pair(folder, name, "ca", hosts, days=days)
    _openssl(
        folder,
        *("pkcs12", "-export", "-name", name, "-in", f"{name}.crt", "-inkey", f"{name}.key"),
        *("-certfile", "ca.pem", "-passout", f"pass:{PASSWORD}", "-out", f"{name}.p12"),
    )


def make_pair(
    folder: Path, name: str, authority: str, hosts: str = HERE, *, days: int = 90
) -> None:
    """Makes a certificate of *authority*: ``NAME.key`` and ``NAME.crt``."""
    request = _openssl(
        folder,
        *("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
        *("-keyout", f"{name}.key"),
    )
    (folder / "extensions").write_text(f"subjectAltName={hosts}\n")
    certificate = _openssl(
        folder,
        *("x509", "-req", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key"),
        "-CAcreateserial",
        *("-days", str(days), "-extfile", "extensions"),
        given=request,
    )
    (folder / f"{name}.crt").write_text(certificate)


def _trust(folder: Path, store: str, kind: str, authority: str) -> None:
    _keytool(
        folder,
        *("-importcert", "-noprompt", "-alias", authority, "-file", f"{authority}.pem"),
        *("-keystore", store),
        kind=kind,
    )


def _convert(folder: Path, source: str, target: str, kind: str) -> None:
    command = ["keytool", "-importkeystore", "-noprompt"]
    command += ["-srckeystore", source, "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD]
    command += ["-destkeystore", target, "-deststoretype", kind, "-deststorepass", PASSWORD]
    _output(folder, command, "")


def _write_pem(folder: Path, name: str) -> None:
    """One file with the encrypted key and the certificates, as Java's PEM stores want it."""
    encrypted = _openssl(
        folder,
        *("pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout", f"pass:{PASSWORD}"),
        given=(folder / f"{name}.key").read_text(),
    )
    chain = (folder / f"{name}.crt").read_text() + (folder / "ca.pem").read_text()
    (folder / f"{name}.pem").write_text(encrypted + chain)


def _openssl(folder: Path, *arguments: str, given: str = "") -> str:
    return _output(folder, ["openssl", *arguments], given)


def _keytool(folder: Path, *arguments: str, kind: str = "PKCS12", given: str = "") -> str:
    command = ["keytool", *arguments, "-storetype", kind, "-storepass", PASSWORD]
    return _output(folder, command, given)


def _output(folder: Path, command: Sequence[str], given: str) -> str:
    done = subprocess.run(
        command, cwd=folder, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
