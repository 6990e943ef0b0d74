"""B32: the address that is dialled is the one that was judged, and nothing leads an attempt on to another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from app import __version__
from app.webhooks.addresses import Addresses, Lookup
from tests.webhooks.raw_endpoint import BODY, answering, message, sending
from tests.webhooks.test_b32_only_permitted_addresses_are_named import SPELLINGS

NOT_SENT = "Not sent: the URL has a host with an address that is not public."


class Names:
    """A name server that answers one thing after the other, and the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers, self.asked = list(answers), list[str]()

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def test_an_attempt_is_one_signed_post_with_the_headers_of_the_webhook() -> None:
    async with answering() as receiver, sending(lookup=Names(["127.0.0.1"])) as sender:
        url = receiver.url("hook.example", "/a%2Fb?x=%20y&%C3%A4#part")
        outcome = await sender.send(message(url, Authorization="Bearer 1", Webhook_Id="mine", HOST="inner"))
    assert (outcome.status_code, outcome.error, outcome.response) == (200, None, "ok")
    [arrived] = receiver.arrived
    arrived.verify()
    assert arrived.line == "POST /a%2Fb?x=%20y&%C3%A4 HTTP/1.1"
    assert arrived.body == BODY
    expected = {
        "host": f"hook.example:{receiver.port}",
        "authorization": "Bearer 1",
        "content-type": "application/json",
        "user-agent": f"cairn/{__version__}",
        "webhook-id": "dlv_1",
        "content-length": str(len(BODY)),
        "accept-encoding": "identity",
    }
    assert arrived.headers.items() >= expected.items()


async def test_a_body_of_5_mb_and_two_secrets_arrive_whole() -> None:
    other = "whsec_" + "QUJD" * 12
    async with answering() as receiver, sending() as sender:
        sent = message(receiver.url(), b'"' + b"x" * 5_000_000 + b'"', (other, *message("").secrets))
        assert (await sender.send(sent)).status_code == 200
    for secret in sent.secrets:
        receiver.arrived[0].verify(secret)


@pytest.mark.parametrize("host", [*SPELLINGS, "localhost"])
async def test_no_spelling_of_an_inner_address_is_dialled(host: str) -> None:
    async with answering() as receiver, sending(allow_private="") as sender:
        outcome = await sender.send(message(receiver.url(host)))
    assert outcome.error is not None
    assert (outcome.status_code, outcome.response, outcome.error[:18]) == (None, None, "Not sent: the URL ")
    assert receiver.connections == 0


@pytest.mark.parametrize(
    "records", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"]]
)
async def test_a_name_that_turns_inward_after_the_check_is_not_dialled(records: list[str]) -> None:
    names = Names(["8.8.8.8"], records)
    async with answering() as receiver, sending(allow_private="", lookup=names) as sender:
        url = receiver.url("rebinding.example")
        await Addresses("", names).check(url)
        outcome = await sender.send(message(url))
    assert (outcome.error, outcome.response) == (NOT_SENT, None)
    assert receiver.connections == 0


async def test_a_name_is_looked_up_once_for_a_dial_and_that_answer_is_dialled() -> None:
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    async with answering() as receiver, sending(lookup=names) as sender:
        assert (await sender.send(message(receiver.url("hook.example")))).status_code == 200
    assert names.asked == ["hook.example"]


async def test_a_kept_connection_leads_where_it_was_judged_to_lead() -> None:
    names = Names(["127.0.0.1"], ["10.0.0.1"])
    async with answering() as receiver, sending(lookup=names) as sender:
        outcomes = [await sender.send(message(receiver.url("hook.example"))) for _ in range(5)]
    assert [outcome.status_code for outcome in outcomes] == [200] * 5
    assert (receiver.connections, len(names.asked)) == (1, 1)


async def test_names_that_share_an_address_share_no_connection() -> None:
    async with answering() as receiver, sending(lookup=Names(["127.0.0.1"])) as sender:
        for name in ("one.example", "two.example"):
            await sender.send(message(receiver.url(name)))
    assert [arrived.headers["host"].split(":")[0] for arrived in receiver.arrived] == ["one.example", "two.example"]
    assert receiver.connections == 2


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 307, 308])
async def test_no_redirect_is_followed(status: int) -> None:
    async with answering() as inner, sending() as sender:
        answer = f"HTTP/1.1 {status} Found\r\nLocation: {inner.url()}\r\nContent-Length: 0\r\n\r\n"
        async with answering(answer.encode()) as receiver:
            outcome = await sender.send(message(receiver.url(), Authorization="Bearer 1"))
    assert (outcome.status_code, outcome.error) == (status, f"The endpoint answered {status}.")
    assert (receiver.connections, inner.connections) == (1, 0)


async def test_no_proxy_cookie_or_password_of_the_environment_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    async with answering() as proxy, answering(answer) as receiver, sending() as sender:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url(path=""))
        monkeypatch.delenv("no_proxy", raising=False)
        for _ in range(2):
            await sender.send(message(receiver.url()))
    assert (proxy.connections, len(receiver.arrived)) == (0, 2)
    assert not receiver.arrived[1].headers.keys() & {"cookie", "authorization", "proxy-authorization"}


async def test_a_permitted_name_is_dialled_wherever_it_leads() -> None:
    names: Lookup = Names(["127.0.0.1"])
    async with answering() as receiver, sending(allow_private="receiver", lookup=names) as sender:
        assert (await sender.send(message(receiver.url("receiver")))).status_code == 200
        assert (await sender.send(message(receiver.url("receiver.example")))).error == NOT_SENT
        assert (await sender.send(message(receiver.url("127.0.0.1")))).error == NOT_SENT


async def test_an_unknown_name_and_a_closed_port_are_told_apart() -> None:
    async def unknown(_host: str, _port: int) -> Sequence[str]:
        raise OSError("unknown")

    async with answering() as receiver, sending(lookup=unknown) as sender:
        assert (await sender.send(message(receiver.url("hook.example")))).error == "The name of the host was not found."
    async with sending() as sender:
        assert (await sender.send(message(receiver.url()))).error == "No connection: Connection refused."


async def test_looking_up_one_name_for_many_attempts_at_once_is_one_look_up() -> None:
    names = Names(["127.0.0.1"])
    async with answering() as receiver, sending(lookup=names) as sender:
        outcomes = await asyncio.gather(*(sender.send(message(receiver.url("hook.example"))) for _ in range(20)))
    assert {outcome.status_code for outcome in outcomes} == {200}
    assert len(names.asked) == 1
