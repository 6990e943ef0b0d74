"""An endpoint, as a process of its own, that answers without end or measure; it prints its port."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import zlib

PIECE = b"x" * 65_536
TWO_GB = 2 * 1024**3
ZEROS = bytes(16 * 1024**2)
PACKING = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
PACKED_ZEROS = PACKING.compress(ZEROS) + PACKING.flush(zlib.Z_FULL_FLUSH)
MANY = b"".join(b"X-%d: %s\r\n" % (number, b"y" * 1016) for number in range(63))


async def plain(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % TWO_GB)
    for _ in range(TWO_GB // len(PIECE)):
        writer.write(PIECE)
        await writer.drain()


async def zeros(writer: asyncio.StreamWriter) -> None:
    """Two gigabytes of zeros, which gzip makes two megabytes."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"")[:10])
    for _ in range(TWO_GB // len(ZEROS)):
        writer.write(PACKED_ZEROS)
        await writer.drain()


async def silent(writer: asyncio.StreamWriter) -> None:
    """Gzip that goes on for ever and says nothing: empty blocks."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + gzip.compress(b"")[:10])
    while True:
        writer.write(b"\x00\x00\x00\xff\xff" * 10_000)
        await writer.drain()


async def chunked(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + PIECE + b"\r\n")
        await writer.drain()


async def extension(writer: asyncio.StreamWriter) -> None:
    """A chunk whose size line never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
    while True:
        writer.write(PIECE)
        await writer.drain()


async def trailers(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n")
    while True:
        writer.write(b"X-Trailer: " + b"y" * 1000 + b"\r\n")
        await writer.drain()


async def head(writer: asyncio.StreamWriter) -> None:
    """A head that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(MANY)
        await writer.drain()


async def line(writer: asyncio.StreamWriter) -> None:
    """One header that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        writer.write(PIECE)
        await writer.drain()


async def status(writer: asyncio.StreamWriter) -> None:
    """A first line that never ends."""
    writer.write(b"HTTP/1.1 200 ")
    while True:
        writer.write(PIECE)
        await writer.drain()


async def informed(writer: asyncio.StreamWriter) -> None:
    """Answers that announce an answer, for ever."""
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 1000)
        await writer.drain()


PATHS = {
    work.__name__: work for work in (plain, zeros, silent, chunked, extension, trailers, head, line, status, informed)
}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        request = await reader.readuntil(b"\r\n\r\n")
        await PATHS[request.split(b" ")[1].decode().strip("/")](writer)
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
