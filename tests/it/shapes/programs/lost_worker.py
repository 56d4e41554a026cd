"""A pool's worker takes a lock that its parent holds and never gives back."""

import multiprocessing

lock = multiprocessing.Lock()


def work():
    with lock:
        pass


if __name__ == "__main__":
    lock.acquire()
    workers = [multiprocessing.Process(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
