"""B32: the certificate is verified for the name in the URL, although the address is pinned."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.webhooks.raw_endpoint import RawEndpoint, answering, message, sending

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


@dataclass
class Authority:
    """Who signs the certificates of a test; trusted where SSL_CERT_FILE names its own."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def file(self) -> Path:
        return self.folder / "authority.pem"

    def server(self, name: str, until: datetime.datetime = NOW + DAY) -> ssl.SSLContext:
        """What a server presents itself with as this name, or this address."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, self.certificate.subject, self.key, until)
        file = self.folder / f"{name}-{until:%H%M%S}.pem"
        file.write_bytes(_pem(key) + certificate.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    until: datetime.datetime,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    try:
        told: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        told = x509.DNSName(name)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 3 * DAY)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([told]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate("authority.example", key, None, key, NOW + DAY)
    made = Authority(tmp_path, key, certificate)
    made.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return made


async def here(_host: str, _port: int) -> Sequence[str]:
    """Every name leads to this machine."""
    return ["127.0.0.1"]


async def error_at(receiver: RawEndpoint, host: str) -> str | None:
    async with sending(lookup=here) as sender:
        outcome = await sender.send(message(receiver.url(host, scheme="https"), Authorization="Bearer 1"))
    return outcome.error


@asynccontextmanager
async def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch, name: str) -> AsyncIterator[RawEndpoint]:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with answering(tls=authority.server(name)) as receiver:
        yield receiver


async def test_a_certificate_for_the_name_is_accepted_and_the_name_is_asked_for(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    asked: list[str] = []
    context = authority.server("hook.example")
    context.sni_callback = lambda _connection, name, _context: asked.append(name)
    async with answering(tls=context) as receiver:
        assert await error_at(receiver, "hook.example") is None
        assert await error_at(receiver, "HOOK.example.") is None
    assert asked == ["hook.example", "hook.example"]
    receiver.arrived[0].verify()
    assert receiver.arrived[0].headers["host"] == f"hook.example:{receiver.port}"


async def test_a_certificate_for_an_address_is_accepted_there(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with trusted(authority, monkeypatch, "127.0.0.1") as receiver:
        assert await error_at(receiver, "127.0.0.1") is None
        assert "certificate" in (await error_at(receiver, "hook.example") or "")


async def test_a_certificate_for_another_name_is_refused_and_nothing_is_sent(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with trusted(authority, monkeypatch, "other.example") as receiver:
        error = await error_at(receiver, "hook.example")
    assert error is not None
    assert error.startswith("The certificate of the endpoint was not accepted: ")
    assert receiver.arrived == []


async def test_a_certificate_that_nobody_known_signed_or_that_has_ended_is_refused(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answering(tls=authority.server("hook.example")) as receiver:
        assert "The certificate of the endpoint was not accepted" in (await error_at(receiver, "hook.example") or "")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    async with answering(tls=authority.server("hook.example", NOW - DAY)) as receiver:
        assert "certificate has expired" in (await error_at(receiver, "hook.example") or "")
    assert receiver.arrived == []


async def test_an_endpoint_that_speaks_no_tls_is_told_so() -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    receiver = RawEndpoint(server.sockets[0].getsockname()[1])
    assert await error_at(receiver, "hook.example") == "The endpoint does not speak TLS as it should."
    server.close()
