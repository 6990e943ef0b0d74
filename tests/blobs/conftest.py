"""The object stores that one suite is run on."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.blobs.blobs import Blobs
from app.main import blobs_of
from app.settings import Settings
from tests.blobs.s3.server import make_bucket, serving
from tests.conftest import settings_for

NOWHERE = "postgresql://127.0.0.1:1/none"


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The URL of an S3-compatible service."""
    with serving() as url:
        yield url


@pytest.fixture
def bucket(s3: str) -> dict[str, object]:
    """The settings of a bucket of this test alone."""
    return {
        "bucket": make_bucket(s3, f"b{uuid.uuid4().hex}"), "prefix": "of/cairn", "endpoint": s3, "allow_http": True,
        "access_key_id": "key", "secret_access_key": "secret", "wait_seconds": 10,
    }  # fmt: skip


@pytest.fixture(params=["folder", "bucket"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """The settings of a store of this test alone."""
    where = {"folder": tmp_path / "objects"} if request.param == "folder" else request.getfixturevalue("bucket")
    return settings_for(NOWHERE, blobs=where)


@pytest.fixture
def blobs(settings: Settings) -> Blobs:
    """An empty store."""
    return blobs_of(settings)


@pytest.fixture
def another(settings: Settings) -> Callable[[], Blobs]:
    """Opens the same store as another process does."""
    return lambda: blobs_of(settings)
