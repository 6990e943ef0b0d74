"""What the compose file tells containers to run is run here as it stands; only host names, ports and folders differ."""

from pathlib import Path

import redis

from app.embedded.binaries import find_nats, find_valkey
from app.embedded.process import free_port
from tests.shape.compose import compose, services
from tests.shape.started import started, status


def test_nats_takes_its_config_and_its_health_check(tmp_path: Path) -> None:
    port, monitor = free_port(), free_port()
    config = compose()["configs"]["nats"]["content"]
    for told, here in {"4222": f"{port}", "8222": f"{monitor}", "/data": str(tmp_path / "data")}.items():
        assert told in config
        config = config.replace(told, here)
    file = tmp_path / "cairn.conf"
    file.write_text(config)
    url = services()["nats"]["healthcheck"]["test"][-1].replace("8222", str(monitor))
    flag = services()["nats"]["command"][0]

    with started(str(find_nats()), flag, str(file)) as server:
        server.until(lambda: status(url) == 200)


def test_redis_takes_its_options_and_writes_nothing_to_disk(tmp_path: Path) -> None:
    port = free_port()
    options = services()["redis"]["command"][1:]

    with started(str(find_valkey()), *options, "--port", str(port), "--dir", str(tmp_path)) as server:
        client = redis.Redis(port=port, socket_timeout=2)
        server.until(lambda: answers(client))
        client.set("hint", "1")
        client.close()

    assert list(tmp_path.iterdir()) == []


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False
