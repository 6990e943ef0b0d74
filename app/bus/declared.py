"""The streams as they are declared, and how a server is brought to have them so."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from app.bus.work import Stream, is_of
from app.errors import Unavailable
from app.settings import NatsSettings

log = structlog.get_logger("cairn.bus")
API = "$JS.API."
API_SECONDS = 3.0
CONSUMER = "cairn-webhooks"
# What the server says, by the numbers that it promises.
STREAM_MISSING, CONSUMER_MISSING, STREAM_DIFFERS, NO_ROOM = 10059, 10014, 10058, 10047
# No message has this number, or a later one; none had it when it was to be deleted.
MESSAGE_MISSING, MESSAGE_GONE = 10037, (10037, 10043, 10057)
# Another process may declare the same at the same time, or what is declared may be deleted meanwhile.
TRIES = 3


class Refused(Exception):
    """JetStream refuses; `number` is what it promises to call this refusal by."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.status, self.number = int(error.get("code", 0)), int(error.get("err_code", 0))
        super().__init__(str(error.get("description") or f"code {self.status}"))


async def ask(client: Any, what: str, body: Mapping[str, Any] | None = None, seconds: float = API_SECONDS) -> Any:
    """What JetStream answers. Raises `Refused`, and `connection.FAILURES` when it does not answer."""
    told = b"" if body is None else json.dumps(body).encode()
    answer = json.loads((await client.request(API + what, told, timeout=seconds)).data)
    if "error" in answer:
        raise Refused(answer["error"])
    return answer


@dataclass(frozen=True)
class Declared:
    """A stream, and the consumer that every process takes from; dead letters are for readers of their own."""

    stream: Stream
    name: str
    subject: str
    config: Mapping[str, Any]
    consumer: Mapping[str, Any] | None

    def differences(self, found: Mapping[str, Any]) -> list[str]:
        """Which settings of a stream, or of its consumer, are not as they are declared."""
        wanted = self.consumer if "ack_policy" in found else self.config
        return [name for name, value in (wanted or {}).items() if found.get(name) != value]

    async def bring_about(self, client: Any) -> None:
        """Make, or change, the stream and its consumer. Raises `Unavailable`, saying what to do, and `FAILURES`."""
        try:
            for tries_left in reversed(range(TRIES)):
                try:
                    await self._stream(client)
                    await self._consumer(client)
                    return
                except Refused as refusal:
                    if refusal.number not in (STREAM_DIFFERS, STREAM_MISSING, CONSUMER_MISSING) or not tries_left:
                        raise
        except Refused as refusal:
            raise Unavailable(self._explained(refusal)) from refusal

    async def erase(self, client: Any, tenant_id: str) -> int:
        """Delete the messages of a tenant; how many that were. Raises `Refused` and `FAILURES`."""
        last, number, erased = (await ask(client, f"STREAM.INFO.{self.name}"))["state"]["last_seq"], 1, 0
        while number <= last:
            try:
                got = await ask(client, f"STREAM.MSG.GET.{self.name}", {"seq": number, "next_by_subj": ">"})
            except Refused as refusal:
                if refusal.number != MESSAGE_MISSING:
                    raise
                break
            found = got["message"]
            if is_of(base64.b64decode(found.get("data") or ""), tenant_id):
                erased += await self._delete(client, found["seq"])
            number = found["seq"] + 1
        return erased

    async def _delete(self, client: Any, number: int) -> int:
        try:
            # Deleted so, its bytes are overwritten.
            await ask(client, f"STREAM.MSG.DELETE.{self.name}", {"seq": number})
        except Refused as refusal:
            # It was done, or too old, meanwhile.
            if refusal.number not in MESSAGE_GONE:
                raise
            return 0
        return 1

    async def _stream(self, client: Any) -> None:
        try:
            found = (await ask(client, f"STREAM.INFO.{self.name}"))["config"]
        except Refused as refusal:
            if refusal.number != STREAM_MISSING:
                raise
            await ask(client, f"STREAM.CREATE.{self.name}", self.config)
            return
        if changed := self.differences(found):
            # What else an operator has set, such as a placement, stays.
            await ask(client, f"STREAM.UPDATE.{self.name}", {**found, **self.config})
            log.info("stream changed", stream=self.name, settings=changed)

    async def _consumer(self, client: Any) -> None:
        if self.consumer is None:
            return
        create = f"CONSUMER.CREATE.{self.name}.{CONSUMER}", {"stream_name": self.name, "config": self.consumer}
        # One of another release takes from this work queue, or ours has become what cannot be changed into this. What
        # was taken and is not done comes again. Ours comes last: another process may just have made it.
        for in_the_way in (self._others, self._unlike):
            try:
                await ask(client, *create)
                return
            except Refused as refusal:
                if refusal.number in (STREAM_MISSING, NO_ROOM):
                    raise
                log.warning("consumers are made anew", stream=self.name, error=str(refusal))
            for name in await in_the_way(client):
                await ask(client, f"CONSUMER.DELETE.{self.name}.{name}")
        await ask(client, *create)

    async def _others(self, client: Any) -> list[str]:
        names = (await ask(client, f"CONSUMER.NAMES.{self.name}", {}))["consumers"] or ()
        return [name for name in names if name != CONSUMER]

    async def _unlike(self, client: Any) -> list[str]:
        """Our own consumer, where it is not as it is declared."""
        found = await ask(client, f"CONSUMER.INFO.{self.name}.{CONSUMER}")
        return [CONSUMER] if self.differences(found["config"]) else []

    def _explained(self, refusal: Refused) -> str:
        if refusal.number == NO_ROOM:
            return (
                f"NATS has no room for the stream {self.name} of {self.config['max_bytes']} bytes;"
                " lower CAIRN_NATS__STREAM_BYTES_MAX, or give it more."
            )
        return f"NATS refuses the stream {self.name} as it is declared: {refusal}."


def declared(settings: NatsSettings, ack_seconds: float) -> dict[Stream, Declared]:
    """Every stream; what is taken and not acknowledged within `ack_seconds` comes again."""

    def named(stream: Stream, consumer: Mapping[str, Any] | None, **limits: Any) -> Declared:
        subject = f"{settings.stream_prefix}.{stream}"
        name = subject.replace(".", "_")
        config = {
            "name": name,
            "subjects": [subject],
            "storage": "file",
            "num_replicas": settings.stream_replicas,
            "max_bytes": settings.stream_bytes_max,
            **limits,
        }
        config["duplicate_window"] = min(_nanoseconds(settings.duplicate_seconds), config["max_age"])
        return Declared(stream, name, subject, config, consumer)

    queued = named(
        Stream.QUEUED,
        _consumer(ack_seconds),
        retention="workqueue",
        # A full stream refuses what is new, and the row waits; it never drops what nobody has taken.
        discard="new",
        max_age=_nanoseconds(settings.stream_age_seconds),
    )
    dead = named(
        Stream.DEAD_LETTER,
        None,
        retention="limits",
        discard="old",
        max_age=_nanoseconds(settings.dead_letter_age_seconds),
    )
    return {queued.stream: queued, dead.stream: dead}


def _consumer(ack_seconds: float) -> dict[str, Any]:
    return {
        "name": CONSUMER,
        "durable_name": CONSUMER,
        # No filter: a release that changes the subject changes the stream alone.
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": _nanoseconds(ack_seconds),
        # Rows decide when an attempt was the last one; a message that the server gives up on would stay, unseen.
        "max_deliver": -1,
        # Each process asks for what it has room for; a bound over all of them would stall those that are well.
        "max_ack_pending": -1,
        "replay_policy": "instant",
    }


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
