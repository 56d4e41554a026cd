"""Reads a line in an event loop, whose wake-up socket is in the same set as the input."""

import asyncio
import sys


async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("Name: ", end="", flush=True)
    line = await reader.readline()
    print("hello", line.decode())


asyncio.run(main())
