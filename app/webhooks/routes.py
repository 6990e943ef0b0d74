"""Webhooks over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from app.db.database import Answer
from app.db.digest import digest_of
from app.errors import InvalidInput
from app.events.store import Subject
from app.http.call import Call
from app.http.endpoint import Routes
from app.http.paging import page
from app.webhooks import store
from app.webhooks.addresses import Addresses
from app.webhooks.errors import WebhookConflict, WebhookNotFound
from app.webhooks.headers import check_headers
from app.webhooks.schemas import (
    NewWebhook,
    SecretRotation,
    Webhook,
    WebhookChange,
    WebhookList,
    WebhookPage,
    WebhookWithSecret,
)
from app.webhooks.sealing import EncryptionKeyMissing, Seal
from app.webhooks.signing import new_secret
from app.webhooks.store import Sealed


def routes_of(subjects: Iterable[Subject], seal: Seal, addresses: Addresses, rotation_seconds: float) -> Routes:
    """The routes of webhooks for events about these subjects."""
    routes = Routes("webhooks")
    known = tuple(subjects)

    async def checked(given: dict[str, Any]) -> Sealed:
        """What is secret, sealed, of fields that are fine. Raises `InvalidInput`, `EncryptionKeyMissing`."""
        _check_events(known, given)
        headers = given.get("headers")
        if headers is not None:
            check_headers(headers)
        if "url" in given:
            await addresses.check(given["url"])
        if headers is None:
            return Sealed()
        return Sealed(None, seal.seal(json.dumps(headers).encode()), sorted(headers))

    @routes.post(
        "/v1/webhooks",
        scope="webhooks:write",
        # The address is looked up, and the tenant's events are held for a moment: not within a long transaction.
        batchable=False,
        response_model=WebhookWithSecret,
        status_code=201,
        errors=(WebhookConflict, EncryptionKeyMissing),
    )
    async def create_webhook(call: Call, body: NewWebhook) -> Answer:
        """Send events to a URL, from now on. The answer holds the signing `secret`, this once.

        The same id with the same fields answers 200 with the webhook as it now is, without the secret. The URL's
        address is looked up and must be public; so it must be at every attempt.
        """
        given = body.given()
        sealed = await checked(given)
        secret = given.get("secret") or new_secret()
        kept = Sealed(seal.seal(secret.encode()), sealed.headers, sealed.header_names)
        # A header's value may be short: by a digest without a key it could be guessed from a copy of the database.
        digests = seal.digests(digest_of({name: value for name, value in given.items() if name != "id"}))
        answer = await store.create(call.writer, call.tenant_id, given, kept, digests)
        return _with_secret(answer, secret) if answer.status == 201 else answer

    @routes.get("/v1/webhooks", scope="webhooks:read", response_model=WebhookPage)
    async def list_webhooks(call: Call, query: WebhookList) -> Answer:
        """The webhooks of this tenant, the newest first."""
        return await page(call, store.WEBHOOKS, query)

    @routes.get("/v1/webhooks/{webhook_id}", scope="webhooks:read", response_model=Webhook, errors=(WebhookNotFound,))
    async def get_webhook(call: Call, webhook_id: str) -> Answer:
        """A webhook, without its secret; of its headers the names."""
        return await store.get(call.reader, call.tenant_id, webhook_id)

    @routes.patch(
        "/v1/webhooks/{webhook_id}",
        scope="webhooks:write",
        batchable=False,
        response_model=Webhook,
        errors=(WebhookNotFound, EncryptionKeyMissing),
    )
    async def patch_webhook(call: Call, webhook_id: str, body: WebhookChange) -> Answer:
        """Change the fields given. They hold for what is sent from now on, the URL and the headers also for retries.

        `enabled: false` disables it: what waits becomes dead letters, and later events are not for it. `enabled: true`
        is `POST …/enable`.
        """
        given = body.given()
        sealed = await checked(given)
        return await store.patch(call.writer, call.tenant_id, webhook_id, given, sealed, call.if_match)

    @routes.delete("/v1/webhooks/{webhook_id}", scope="webhooks:write", status_code=204, errors=(WebhookNotFound,))
    async def delete_webhook(call: Call, webhook_id: str) -> Answer:
        """Remove a webhook. Its deliveries stay listed; what waits becomes dead letters."""
        return await store.delete(call.writer, call.tenant_id, webhook_id, call.if_match)

    @routes.post(
        "/v1/webhooks/{webhook_id}/enable",
        scope="webhooks:write",
        batchable=False,
        response_model=Webhook,
        errors=(WebhookNotFound,),
    )
    async def enable_webhook(call: Call, webhook_id: str) -> Answer:
        """Let a disabled webhook receive events again, from now on; again is the same.

        `missed_after` of the answer is the cursor after which `GET /v1/events` has what it missed; what was under way
        when it was disabled are dead letters, which can be replayed.
        """
        return await store.enable(call.writer, call.tenant_id, webhook_id, call.if_match)

    @routes.post(
        "/v1/webhooks/{webhook_id}/rotate-secret",
        scope="webhooks:write",
        response_model=WebhookWithSecret,
        errors=(WebhookNotFound, EncryptionKeyMissing),
    )
    async def rotate_webhook_secret(call: Call, webhook_id: str, body: SecretRotation) -> Answer:
        """Give a webhook a new secret, shown this once. Until `previous_secret_until` the old one signs too."""
        secret = body.secret or new_secret()
        overlap = rotation_seconds if body.overlap_seconds is None else body.overlap_seconds
        answer = await store.rotate(
            call.writer, call.tenant_id, webhook_id, seal.seal(secret.encode()), overlap, call.if_match
        )
        return _with_secret(answer, secret)

    return routes


def _check_events(subjects: tuple[Subject, ...], given: dict[str, Any]) -> None:
    """Refuse a type of events that there is not, and a field that no subject has. Raises `InvalidInput`."""
    types = {f"{subject.type}.*" for subject in subjects}.union(*(subject.event_types for subject in subjects))
    fields = {field for subject in subjects for field in subject.fields}
    errors = [
        {"pointer": f"/{name}/{place}", "message": f"must be one of {', '.join(sorted(known))}"}
        for name, known in (("event_types", types), ("include", fields))
        for place, value in enumerate(given.get(name, ()))
        if value not in known
    ]
    if errors:
        raise InvalidInput(f"{errors[0]['pointer']}: {errors[0]['message']}.", errors=errors)


def _with_secret(answer: Answer, secret: str) -> Answer:
    assert answer.body is not None
    shown = answer.body.removesuffix(b"null}") + json.dumps(secret).encode() + b"}"
    return Answer(answer.status, shown, answer.etag, kept=answer.body)
