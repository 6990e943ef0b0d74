"""A URL or a key that no try can succeed with is refused by the constructor: a worker would try it for ever."""

from __future__ import annotations

import pytest

from app.client import AsyncCairn, Cairn


@pytest.mark.parametrize("client", [Cairn, AsyncCairn])
@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "localhost:8000", "ftp://127.0.0.1", "http://", "http://127.0.0.1:port", "/v1"]
)
def test_a_url_without_http_and_a_host_is_refused(client: type[Cairn | AsyncCairn], url: str) -> None:
    with pytest.raises(ValueError, match=r"^url .* give one such as http://127\.0\.0\.1:8000$"):
        client(url)


@pytest.mark.parametrize("client", [Cairn, AsyncCairn])
@pytest.mark.parametrize("key", ["cairn_…", "cairn_a\n", "cairn_\x00", "\ufeffcairn_a"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(client: type[Cairn | AsyncCairn], key: str) -> None:
    with pytest.raises(ValueError, match="give the key as it was shown") as refused:
        client(key=key)
    assert key not in str(refused.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "https://cairn.example/under/a/path/", "HTTP://[::1]:8000"])
def test_any_other_is_taken(url: str) -> None:
    with Cairn(url, key="cairn_a"):
        pass
