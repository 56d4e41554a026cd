"""Two processes compute while their parent waits for the results."""

import multiprocessing


def count(start):
    total = start
    while True:
        total = (total * 31 + 7) % 1_000_003


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        pool.map(count, [1, 2])
