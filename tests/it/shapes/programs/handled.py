"""Waits that a signal, a timer or a process outside can end, by the word that is the argument."""

import concurrent.futures
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time


def by_handler():
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    stop.wait()


def by_handler_over_workers():
    stop = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: stop.set())
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        pool.submit(print, "ready", flush=True).result()
        stop.wait()


def by_timer():
    done = threading.Event()
    threading.Timer(300, done.set).start()
    done.wait()


def idle_pool():
    with multiprocessing.Pool(2) as pool:
        pool.map(abs, [1, 2])
        time.sleep(300)


def pool_that_sleeps():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        list(pool.map(time.sleep, [300, 300]))


def by_process():
    outside = int(open("holder.pid").read())
    select.select([os.pidfd_open(outside)], [], [])


def by_heir():
    """The child that is waited for has ended; what it has left behind holds its output."""
    subprocess.run(["sh", "-c", "sleep 300 & echo started"], stdout=subprocess.PIPE)


WAYS = {
    "handler": by_handler,
    "workers": by_handler_over_workers,
    "timer": by_timer,
    "pool": idle_pool,
    "sleepers": pool_that_sleeps,
    "process": by_process,
    "heir": by_heir,
}
if __name__ == "__main__":
    WAYS[sys.argv[1]]()
