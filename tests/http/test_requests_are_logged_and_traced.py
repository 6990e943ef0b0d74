"""Logs that machines read, with the request's id in every line, and traces that join the caller's."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from app.logs import configure_logs
from app.settings import LogSettings
from tests.api_process import serving
from tests.conftest import ADMIN_KEY, http, running, settings_for


@contextmanager
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A server that takes traces: its address, and what was sent."""
    received: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") is None:
                received.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_request_is_a_span_below_the_caller_s(clone: Callable[[], Awaitable[str]]) -> None:
    trace_id, parent_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with collector() as (endpoint, received):
        settings = settings_for(await clone(), tracing={"endpoint": endpoint})
        async with running(settings) as service, http(service, authorization=f"Bearer {ADMIN_KEY}") as client:
            headers = {"traceparent": f"00-{trace_id}-{parent_id}-01"}
            assert (await client.get("/v1/tenants/absent", headers=headers)).status_code == 404
    spans = [span for sent in received for scope in sent.resource_spans[0].scope_spans for span in scope.spans]
    assert [(span.name, span.trace_id.hex(), span.parent_span_id.hex()) for span in spans] == [
        ("GET /v1/tenants/{tenant_id}", trace_id, parent_id)
    ]
    told = {item.key: item.value.int_value or item.value.string_value for item in spans[0].attributes}
    assert told["http.response.status_code"] == 404
    service_name = received[0].resource_spans[0].resource.attributes
    assert {item.key: item.value.string_value for item in service_name}["service.name"] == "cairn"


async def test_every_line_is_json_and_a_request_s_lines_hold_its_id(clone: Callable[[], Awaitable[str]]) -> None:
    with serving(await clone(), http__access_log=True) as process:
        async with httpx.AsyncClient(base_url=process.url) as client:
            given = await client.get("/healthz", headers={"x-request-id": "mine-1"})
            made = await client.get("/v1/absent")
        assert given.headers["x-request-id"] == "mine-1"
        process.process.terminate()
        assert process.wait(20) == 0
        lines = [json.loads(line) for line in process.output().splitlines() if not line.startswith("Cairn serves")]
    requests = {line["request_id"]: line for line in lines if line["message"] == "request"}
    assert set(requests) == {"mine-1", made.headers["x-request-id"]}
    assert (requests["mine-1"]["route"], requests["mine-1"]["status"], requests["mine-1"]["level"]) == (
        "/healthz", 200, "info",
    )  # fmt: skip
    assert {"uvicorn.error", "cairn.http"} <= {line["logger"] for line in lines}
    assert all("at" in line for line in lines)


def test_a_traceback_shows_no_variables(capfd: pytest.CaptureFixture[str]) -> None:
    held_in_confidence = "".join(["hunter2", "-7f3e9c41"])
    configure_logs(LogSettings(format="console"))
    try:
        raise ValueError(len(held_in_confidence))
    except ValueError:
        structlog.get_logger("cairn.http").exception("failed")
    written = capfd.readouterr().err
    assert "ValueError: 16" in written
    assert held_in_confidence not in written


def test_the_drawing_library_is_heard_from_a_warning_on(capfd: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings(level="INFO"))
    logging.getLogger("matplotlib.font_manager").info("generated new fontManager")
    logging.getLogger("matplotlib.font_manager").warning("no font")
    written = capfd.readouterr().err
    assert "fontManager" not in written
    assert "no font" in written
