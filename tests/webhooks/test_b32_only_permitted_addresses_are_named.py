"""B32: what a webhook's URL may name, in every spelling, as it is judged when a webhook is saved."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidInput
from app.settings import WebhookSettings
from app.webhooks import addresses
from app.webhooks.addresses import Addresses, AddressRefused, target_of

PRIVATE = (
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "169.254.0.1",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1",
    "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "168.63.129.16",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "5f00::1",
    "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "",  "example.com",
)  # fmt: skip
PUBLIC = (
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.32.0.1", "223.255.255.255",
    "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1",
)  # fmt: skip
SPELLINGS = (
    "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "0X7F000001", "2130706433",
    "017700000001", "127.0.0.1:8080", "0", "0.0.0.0", "00.0.0.0", "1.2.3.4.5", "256.256.256.256", "1.0x",
    "169.254.169.254",
    "１２７.０.０.１", "127。0。0。1", "①②⑦.0.0.1", "127.0.0.１", "２１３０７０６４３３",
    "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:169.254.169.254]",
    "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[::127.0.0.1]", "[v1.x]", "[::1",
)  # fmt: skip
ABSURD = (
    "", " ", "example.com", "//example.com/", "http://", "http:///x", "https://", "http:/example.com",
    "http:example.com",
    "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "javascript:alert(1)", "http+unix://x/", "ws://a.example/",
    "http://exa mple.com/", " http://example.com/", "http://example.com/ ", "http://example.com/a b", "http://example.com/\t",
    "http://example.com/\r\nX-Injected: 1", "http://example.com/\x00", "http://example.com/\x7f", "http://example.com/\ud800",
    "http://example.com\\@127.0.0.1/", "http://example.com/\u202e", "http://exam\u00adple.com/",
    "http://user@example.com/", "http://user:word@example.com/", "http://@example.com/", "http://:@example.com/",
    "http://example.com:0/", "http://example.com:65536/", "http://example.com:abc/", "http://example.com:-1/",
    "http://a..b/", "http://.example.com/", "http://-a.example/", "http://a-.example/", "http://ex%61mple.com/",
    "http://127.0.0.1%00.example.com/", "http://xn--/", "http://xn--999999999.example/", f"http://{'a' * 64}.example/",
    f"http://{'a.' * 127}example/", "http://example.com/" + "a" * 2048,
)  # fmt: skip


def names(**known: Sequence[str] | OSError) -> Addresses:
    """The rule, with these names and no others."""
    return Addresses("", lookup(known))


def lookup(known: dict[str, Sequence[str] | OSError]) -> addresses.Lookup:
    async def look_up(host: str, _port: int) -> Sequence[str]:
        found = known.get(host.split(".", maxsplit=1)[0], OSError("unknown"))
        if isinstance(found, OSError):
            raise found
        return found

    return look_up


async def refused(rule: Addresses, url: str) -> str:
    with pytest.raises(InvalidInput) as error:
        await rule.check(url)
    assert [entry["pointer"] for entry in error.value.facts["errors"]] == ["/url"]
    return error.value.detail


@pytest.mark.parametrize("address", PRIVATE)
def test_no_address_that_is_not_public_is_permitted(address: str) -> None:
    assert not Addresses("").permits(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_permitted(address: str) -> None:
    assert Addresses("").permits(address)


@given(st.ip_addresses(v=4))
def test_an_address_is_judged_alike_in_whatever_it_is_carried(address: ipaddress.IPv4Address) -> None:
    rule, number = Addresses(""), int(address)
    carried = (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80)
    assert {rule.permits(ipaddress.IPv6Address(one)) for one in carried} == {rule.permits(address)}


@given(st.ip_addresses())
def test_nothing_is_permitted_that_python_knows_as_private(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    told = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None) or address
    if told.is_private or told.is_loopback or told.is_link_local or told.is_multicast or told.is_unspecified:
        assert not Addresses("").permits(address)


@pytest.mark.parametrize("host", SPELLINGS)
async def test_an_address_is_refused_in_every_spelling(host: str) -> None:
    await refused(Addresses(""), f"http://{host}/")


@pytest.mark.parametrize("url", ABSURD)
async def test_what_is_no_plain_url_is_refused(url: str) -> None:
    await refused(names(example=["8.8.8.8"]), url)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com", "HTTPS://EXAMPLE.COM:8443/x?y=z#part", "http://example.com./", "http://8.8.8.8:1/",
        "https://[2606:4700::1111]/", "http://example.com?@127.0.0.1/", "http://example.com#@127.0.0.1/",
        "http://a_b.example.com/%2F%20", "http://nobody-knows-it.example/", "http://münchen.example/ä",
        "http://example.com:65535/", "http://☃.example/",
    ],
)  # fmt: skip
async def test_plain_public_urls_are_accepted(url: str) -> None:
    await names(example=["8.8.8.8", "2606:4700::1111"]).check(url)


async def test_every_record_of_a_name_must_be_public() -> None:
    rule = names(mixed=["8.8.8.8", "10.0.0.1"], mapped=["8.8.8.8", "::ffff:10.0.0.1"], inner=["fe80::1%2"])
    for name in ("mixed", "mapped", "inner"):
        assert "not public" in await refused(rule, f"https://{name}.example/")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "a.localhost", "postgres", "redis", "nats", "db.internal", "printer.local"]
)
async def test_names_of_an_inner_network_are_refused_known_or_not(host: str) -> None:
    await refused(names(), f"http://{host}/")
    await refused(names(**{host.rstrip(".").split(".")[0]: ["127.0.0.1"]}), f"http://{host}/")


async def test_what_the_system_knows_as_localhost_is_refused() -> None:
    await refused(Addresses(""), "http://localhost/")
    assert set(await Addresses("127.0.0.0/8,::1").addresses_of("localhost", 80)) <= {"127.0.0.1", "::1"}


async def test_the_refusal_tells_no_inner_address() -> None:
    assert "10.0.0.1" not in await refused(names(mixed=["10.0.0.1"]), "http://mixed.example/")


async def test_the_operator_permits_networks_and_names() -> None:
    known = {"postgres": ["172.18.0.2"], "metadata": ["169.254.169.254"], "db": ["10.1.2.3"]}
    rule = Addresses("10.1.0.0/16, ::1, Postgres", lookup(known))
    for host in ("10.1.2.3", "[::1]", "[::ffff:10.1.2.3]", "postgres", "POSTGRES.", "db.internal"):
        await rule.check(f"http://{host}/")
    for host in ("10.2.0.1", "172.18.0.2", "metadata.example", "postgres.example", "[::2]"):
        await refused(rule, f"http://{host}/")


@pytest.mark.parametrize("allowed", ["10.0.0.0/33", "::1/129", "http://example.com", "a b", "1.2.3", "*.example.com"])
def test_a_wrong_permission_is_refused_at_the_start(allowed: str) -> None:
    for make in (Addresses, lambda text: WebhookSettings(allow_private=text)):
        with pytest.raises(ValueError, match="is no network"):
            make(allowed)


async def test_a_name_server_that_hangs_does_not_hold_a_save_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "CHECK_SECONDS", 0.05)

    async def hanging(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        raise AssertionError

    begun = time.monotonic()
    await Addresses("", hanging).check("https://slow.example/")
    await refused(Addresses("", hanging), "https://postgres/")
    assert time.monotonic() - begun < 2


@given(st.text(max_size=60).map(lambda text: "http://" + text))
def test_any_text_is_a_target_or_refused_in_words(url: str) -> None:
    try:
        target = target_of(url)
    except AddressRefused:
        return
    assert target.url.scheme == "http"
    assert target.host == target.url.raw_host
