"""Asks an endpoint like OpenAI's for embeddings: bounded in time, memory and number, and again where that helps."""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from app import __version__
from app.embeddings.answers import Found, Unreadable, excerpt, read_answer
from app.embeddings.embedder import EmbedderRefused, EmbedderUnavailable, EmbeddingFault
from app.settings import EmbedderSettings

# Longest pause before the second try; it doubles with each, and a pause is drawn between nothing and that.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.25, 5.0
# The longest wait that a caller is told.
RETRY_AFTER_SECONDS_MAX = 3600
# An answer may hold so much beside its numbers, and so much for each of them.
ANSWER_BYTES, NUMBER_BYTES = 1_048_576, 40
# Room for the numbers of another model, so that a wrong size can be told.
DIMENSIONS_MIN = 4096
# Larger answers are read beside the loop.
THREAD_BYTES = 65_536
# A text of its own may be too long, or empty: then that text is at fault, and the others are asked for without it.
OF_THE_TEXT = frozenset({400, 413, 422})
PASSING = frozenset({408, 425, 429})
# Where a text is refused, this one is asked for: where that is refused too, it is not the text.
PROBE = "text"

Asked = Callable[[str, float], None]
"""Called with `answered`, `refused` or `failed`, and the seconds of a request."""


class _Failed(Exception):
    """A request that may be taken later; `seconds` is what the endpoint asks to wait, where it does."""

    def __init__(self, detail: str, seconds: float | None = None) -> None:
        super().__init__(detail)
        self.detail, self.seconds = detail, seconds


class _Refused(Exception):
    """A request that is not taken as it is."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(status)
        self.status = status
        self.words = f": {said.rstrip('.')}." if said else "."


class Endpoint:
    """The endpoint of this process. Open and close it within one loop."""

    def __init__(self, settings: EmbedderSettings, asked: Asked = lambda _outcome, _seconds: None) -> None:
        assert settings.url is not None
        self._settings, self._asked = settings, asked
        self._url = settings.url.rstrip("/") + "/embeddings"
        self._key = "" if settings.api_key is None else settings.api_key.get_secret_value()
        self._slots = asyncio.Semaphore(settings.in_flight_max)
        headers = {"user-agent": f"cairn/{__version__}", "accept-encoding": "identity"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        self._http = httpx.AsyncClient(
            headers=headers,
            # Nothing of the environment leads elsewhere: no proxy, no .netrc.
            trust_env=False,
            follow_redirects=False,
            verify=ssl.create_default_context(),
            timeout=settings.attempt_seconds,
            limits=httpx.Limits(
                max_connections=settings.in_flight_max, max_keepalive_connections=settings.in_flight_max
            ),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(self, model: str, dimensions: int, texts: Sequence[str]) -> list[Found]:
        """For each text its embedding, or what is wrong with it, within `wait_seconds`.

        Raises `EmbedderUnavailable`, `EmbedderRefused`.
        """
        try:
            async with asyncio.timeout(self._settings.wait_seconds):
                return await _Asking(self, model, dimensions).all(texts)
        except TimeoutError:
            raise EmbedderUnavailable(
                f"The embedding service gave no answer within {self._settings.wait_seconds:g} seconds."
            ) from None

    async def once_answered(self, model: str, dimensions: int, texts: Sequence[str]) -> list[Found]:
        """The answer to one request, tried so often. Raises `EmbedderUnavailable`, `EmbedderRefused`, `_Refused`."""
        deadline = time.monotonic() + self._settings.wait_seconds
        for tries_left in reversed(range(self._settings.attempts_max)):
            try:
                async with self._slots:
                    return await self._timed(model, dimensions, texts)
            except _Failed as failure:
                longest = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS * 2 ** (self._settings.attempts_max - 1 - tries_left))
                pause = random.uniform(0, longest) if failure.seconds is None else failure.seconds  # noqa: S311 - spread, not secrecy
                if not tries_left or time.monotonic() + pause > deadline:
                    again = min(RETRY_AFTER_SECONDS_MAX, max(1, round(failure.seconds or 1)))
                    raise EmbedderUnavailable(failure.detail, retry_after_seconds=again) from None
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _timed(self, model: str, dimensions: int, texts: Sequence[str]) -> list[Found]:
        begun, outcome = time.perf_counter(), "failed"
        try:
            found = await self._request(model, dimensions, texts)
            outcome = "answered"
        except (_Refused, EmbedderRefused):
            outcome = "refused"
            raise
        finally:
            self._asked(outcome, time.perf_counter() - begun)
        return found

    async def _request(self, model: str, dimensions: int, texts: Sequence[str]) -> list[Found]:
        asked: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
        if self._settings.send_dimensions:
            asked["dimensions"] = dimensions
        most = ANSWER_BYTES + len(texts) * max(dimensions, DIMENSIONS_MIN) * NUMBER_BYTES
        seconds = self._settings.attempt_seconds
        try:
            async with (
                asyncio.timeout(seconds),
                self._http.stream(
                    "POST", self._url, content=json.dumps(asked), headers={"content-type": "application/json"}
                ) as answer,
            ):
                body = await _bounded(answer, most)
        except TimeoutError:
            raise _Failed(f"The embedding service gave no answer within {seconds:g} seconds.") from None
        except httpx.TransportError as error:
            raise _Failed(f"The embedding service cannot be reached ({type(error).__name__}).") from error
        self._check(answer, body, model)
        try:
            if len(body) > THREAD_BYTES:
                return await asyncio.to_thread(read_answer, body, len(texts), dimensions)
            return read_answer(body, len(texts), dimensions)
        except Unreadable as error:
            raise _Failed(f"The embedding service answers, but: {error}") from None

    def _check(self, answer: httpx.Response, body: bytes, model: str) -> None:
        """Return where the answer is one. Raises `_Failed`, `_Refused`, `EmbedderRefused`."""
        status = answer.status_code
        if 200 <= status < 300:
            return
        if status >= 500 or status in PASSING:
            raise _Failed(f"The embedding service answers {status}.", retry_after(answer.headers.get("retry-after")))
        if status in OF_THE_TEXT:
            raise _Refused(status, excerpt(body, self._key))
        raise EmbedderRefused(
            f"The embedding service answers {status}; look at CAIRN_EMBEDDER__URL and CAIRN_EMBEDDER__API_KEY, and"
            " whether it has the model of the space.",
            endpoint_status=status,
            model=model,
        )


class _Asking:
    """Asks for texts together, and in halves where they are refused, until what is refused is a single text."""

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int) -> None:
        self._endpoint, self._model, self._dimensions = endpoint, model, dimensions
        # Whether something was taken: then what is refused is refused for what it says.
        self._taken = False

    async def all(self, texts: Sequence[str]) -> list[Found]:
        """For each text what was found. Raises `EmbedderUnavailable`, `EmbedderRefused`."""
        try:
            found = await self._endpoint.once_answered(self._model, self._dimensions, texts)
        except _Refused as refusal:
            if not self._taken:
                await self._probe(refusal)
            if len(texts) == 1:
                said = f"The embedding service refuses it ({refusal.status}){refusal.words}"
                return [EmbeddingFault("embedding_refused", said, {"endpoint_status": refusal.status})]
            half = len(texts) // 2
            parts = await asyncio.gather(self.all(texts[:half]), self.all(texts[half:]), return_exceptions=True)
            found = []
            for part in parts:
                if isinstance(part, BaseException):
                    raise part from None
                found += part
        self._taken = True
        return found

    async def _probe(self, refusal: _Refused) -> None:
        """Return where another text is taken. Raises `EmbedderRefused` with what was said first, where none is."""
        try:
            await self._endpoint.once_answered(self._model, self._dimensions, [PROBE])
        except _Refused:
            raise EmbedderRefused(
                f"The embedding service refuses every text ({refusal.status}){refusal.words}"
                " Look at CAIRN_EMBEDDER__URL, and whether it has the model of the space.",
                endpoint_status=refusal.status,
                model=self._model,
            ) from None
        self._taken = True


async def _bounded(answer: httpx.Response, most: int) -> bytes:
    """The body as it was sent. Raises `_Failed` where it is larger, or packed although that was not asked for."""
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise _Failed("The embedding service answers in a content encoding that it was not asked for.")
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > most:
            raise _Failed("The embedding service answers more than was asked for.")
    return bytes(body)


def retry_after(value: str | None) -> float | None:
    """The seconds that a `Retry-After` asks to wait, given in seconds or as a date; None for anything else."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,6})?", value.strip()):
        return float(value)
    try:
        then = parsedate_to_datetime(value)
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())
