"""Where a webhook may go: the shape of its URL, and the addresses that may be dialled."""

from __future__ import annotations

import asyncio
import functools
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from yarl import URL

from app.errors import invalid
from app.settings.webhooks import networks_and_names

Address = IPv4Address | IPv6Address
# Gives the addresses of a name, as text; raises OSError where it has none.
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]

URL_CHARACTERS_MAX = 2048
LOOKUPS_MAX = 128
TARGETS_KEPT = 4096
# At save a name server has so long; the same rules hold again at every dial.
CHECK_SECONDS = 3.0

LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"(?=.{{1,253}}\.?\Z){LABEL}(?:\.{LABEL})*\.?", re.IGNORECASE)
# By the WHATWG's rule a host that ends in a number is an IPv4 address, in one of its many spellings.
NUMBER_LAST = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?")
# Names that only an inner network knows.
INNER_NAME = re.compile(r"[^.]+|(?:.*\.)?(?:localhost|local|internal|lan|home\.arpa)", re.IGNORECASE)

# The registries of special-purpose addresses (RFC 6890 and after), and one that Azure uses for its own inner service.
NOT_PUBLIC_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# Of IPv6 only this is routed in public, less the parts below; NAT64 and 6to4 carry an IPv4 address, which is judged.
GLOBAL_6 = IPv6Network("2000::/3")
NOT_PUBLIC_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(OSError):
    """What is asked for must not be dialled; the text says so in words for the owner of the webhook.

    An `OSError`, as a failed look-up is, because that is what an HTTP client expects of one.
    """


@dataclass(frozen=True)
class Target:
    """A URL of a sound shape: as it is dialled, its host in ASCII, and its address where it names one itself."""

    url: URL
    host: str
    address: Address | None


def target_of(url: str) -> Target:
    """Where a URL leads. Raises `AddressRefused` for one that is not a plain http or https URL."""
    if len(url) > URL_CHARACTERS_MAX:
        raise AddressRefused(f"is longer than {URL_CHARACTERS_MAX} characters")
    if not url.isprintable() or any(mark in url for mark in ' \\"<>^`{|}'):
        raise AddressRefused("holds a space or a character that no URL has")
    try:
        parsed = URL(url)
        host, port = parsed.raw_host or "", parsed.port
    except ValueError:
        raise AddressRefused("is not a URL") from None
    if parsed.scheme not in ("http", "https") or not host:
        raise AddressRefused("is not an http or https URL with a host")
    authority = re.split(r"[/?#]", url.partition("//")[2], maxsplit=1)[0]
    if "@" in authority:
        raise AddressRefused("holds a user name; send credentials in `headers`")
    if not port:
        raise AddressRefused("has a port that nothing listens on")
    if ("[" in authority) != (":" in host):
        raise AddressRefused("has a host that is no name and no address")
    return Target(parsed.with_fragment(None), host, _literal(host))


def _literal(host: str) -> Address | None:
    """The address that a host is, or None for a name. Raises `AddressRefused` for other spellings and for neither."""
    if ":" not in host and not NUMBER_LAST.fullmatch(host):
        if not NAME.fullmatch(host) or not _is_unicode(host):
            raise AddressRefused("has a host that is no name and no address")
        return None
    try:
        return IPv6Address(host) if ":" in host and "%" not in host else IPv4Address(host)
    except ValueError:
        raise AddressRefused("has an address as its host that is not written in the usual form") from None


def _is_unicode(name: str) -> bool:
    """Whether the labels of a name that stand for Unicode do."""
    try:
        for label in name.lower().split("."):
            label.removeprefix("xn--").encode("ascii").decode("punycode" if label.startswith("xn--") else "ascii")
    except UnicodeError:
        return False
    return True


class Addresses:
    """The rule which addresses may be dialled, and what names lead to."""

    def __init__(self, allow_private: str, lookup: Lookup | None = None) -> None:
        """Takes the setting `allow_private`, and how names are looked up. Raises ValueError for a wrong setting."""
        self._networks, self._names = networks_and_names(allow_private)
        self._lookup = lookup or SystemLookup()
        # The rule never changes, and an endpoint is sent to many times.
        self.target = functools.lru_cache(maxsize=TARGETS_KEPT)(self._target)

    def permits(self, address: str | Address) -> bool:
        """Whether this address may be dialled; False for what is no address."""
        try:
            found = ip_address(address)
        except ValueError:
            return False
        told = _carried(found)
        return any(one in network for one in (found, told) for network in self._networks) or _is_public(told)

    async def check(self, url: str) -> None:
        """Raise `InvalidInput` naming the field `url` unless it may be the URL of a webhook.

        A public name that nobody knows at the moment is accepted: its addresses are judged at every dial.
        """
        try:
            target = self.target(url)
            if target.address is None:
                async with asyncio.timeout(CHECK_SECONDS):
                    await self.addresses_of(target.host, target.url.port or 0)
        except AddressRefused as error:
            raise invalid("/url", str(error)) from None
        except (OSError, UnicodeError):
            if INNER_NAME.fullmatch(target.host.rstrip(".")) and not self._is_named(target.host):
                raise invalid("/url", "has a host that is no public name") from None

    def _target(self, url: str) -> Target:
        """Where a URL leads, judged as far as it says so itself. Raises `AddressRefused`."""
        target = target_of(url)
        if target.address is not None and not self.permits(target.address):
            raise AddressRefused("has a host with an address that is not public")
        return target

    async def addresses_of(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, every one of which may be dialled.

        Raises `AddressRefused` where one may not, another `OSError` where the name has none.
        """
        found = await self._lookup(host, port)
        if not found:
            raise OSError("the name has no address")
        if not self._is_named(host) and not all(self.permits(address) for address in found):
            raise AddressRefused("has a host with an address that is not public")
        return found

    def _is_named(self, host: str) -> bool:
        return host.rstrip(".").lower() in self._names


def _carried(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NOT_PUBLIC_4)
    return address in GLOBAL_6 and not any(address in network for network in NOT_PUBLIC_6)


class SystemLookup:
    """Looks names up as the system does, each in a thread of its own that holds up neither others nor the exit.

    A name server that hangs would otherwise fill the few threads that the whole process shares.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(LOOKUPS_MAX)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, in the order in which to try them. Raises OSError where it has none."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[str]] = loop.create_future()

        def settle(found: Sequence[str] | OSError) -> None:
            self._free.release()
            if answer.done():
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def work() -> None:
            found = _look_up(host, port)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, found)

        threading.Thread(target=work, name="look up a name", daemon=True).start()
        return await answer


def _look_up(host: str, port: int) -> Sequence[str] | OSError:
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except OSError as error:
        return error
    except UnicodeError:
        return OSError("the name cannot be looked up")
    return [str(info[4][0]) for info in infos]
