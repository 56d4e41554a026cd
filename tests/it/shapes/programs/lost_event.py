"""Waits for an event that nothing sets: in an event loop, in a thread, in a pool, or in a child."""

import asyncio
import concurrent.futures
import multiprocessing
import queue
import subprocess
import sys
import threading


async def in_loop():
    await asyncio.Event().wait()


async def loop_and_child():
    child = await asyncio.create_subprocess_exec("cat", "f")
    await child.wait()


def in_pool():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: pool.submit(print).result()).result()


def open_pipe():
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    child.wait()


def joined_queue():
    work = queue.Queue()
    work.put(1)
    work.join()


def executor():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(loop.run_in_executor(None, threading.Event().wait))


WAYS = {
    "loop": lambda: asyncio.run(in_loop()),
    "loop-child": lambda: asyncio.run(loop_and_child()),
    "event": lambda: threading.Event().wait(),
    "pool": in_pool,
    "process-queue": lambda: multiprocessing.Queue().get(),
    "open-pipe": open_pipe,
    "join": joined_queue,
    "executor": executor,
}
WAYS[sys.argv[1]]()
