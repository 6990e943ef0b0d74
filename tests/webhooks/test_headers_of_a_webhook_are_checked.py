"""Custom headers are checked where they are saved: none frames the request, names its target or hides another."""

from __future__ import annotations

import pytest

from app.errors import InvalidInput
from app.webhooks.headers import HEADERS_MAX, check_headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {
            "Authorization": "Bearer abc",
            "X-Api-Key": "a" * 4096,
            "Cookie": "a=b; c=d",
            "x-empty": "",
            "!#$%&'*+.^_`|~": "!",
        },
        {f"x-{number}": "1" for number in range(HEADERS_MAX)},
    ],
)
def test_ordinary_headers_may_be_sent(headers: dict[str, str]) -> None:
    check_headers(headers)


@pytest.mark.parametrize(
    "name",
    [
        "Host", "content-length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Connection", "Keep-Alive",
        "TE",
        "Trailer", "Upgrade", "Expect", "User-Agent", "Accept-Encoding", "Proxy-Authorization", "proxy-connection",
        "Webhook-Id", "webhook-signature", "WEBHOOK-TIMESTAMP", "webhook-anything", "HTTP2-Settings",
        "", " ", "a b", "a:", "a\r\nb", "a\nb", "a\x00", "é", "ａ", "a" * 129, "(a)", "a/b", "a,b", '"a"', "a\t",
        "\ud800",
    ],
)  # fmt: skip
def test_a_header_with_such_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_headers({"x-fine": "1", name: "1"})
    pointer = "/headers/" + name.replace("~", "~0").replace("/", "~1")
    assert [entry["pointer"] for entry in refused.value.facts["errors"]] == [pointer]


@pytest.mark.parametrize(
    "value",
    [
        "a\r\nX-Injected: 1",
        "a\nb",
        "a\rb",
        "\x00",
        "\x7f",
        "a\tb",
        " a",
        "a ",
        " ",
        "é",
        "你",
        "a" * 4097,
        "\ud800",
        "a\n",
    ],
)
def test_a_header_with_such_a_value_is_refused_and_the_value_is_not_told(value: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_headers({"x-secret": value})
    assert [entry["pointer"] for entry in refused.value.facts["errors"]] == ["/headers/x-secret"]
    assert "Injected" not in str(refused.value.facts) + refused.value.detail


def test_every_wrong_header_is_named_and_too_many_are_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_headers({"Host": "a", "x-fine": "1", "X-A": "1", "x-a": "2", "te": "trailers"})
    named = {entry["pointer"] for entry in refused.value.facts["errors"]}
    assert named == {"/headers/Host", "/headers/te", "/headers/x-a"}
    with pytest.raises(InvalidInput):
        check_headers({f"x-{number}": "1" for number in range(HEADERS_MAX + 1)})
