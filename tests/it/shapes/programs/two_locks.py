"""Two threads take two locks in opposite orders."""

import threading

first, second = threading.Lock(), threading.Lock()
both_hold_one = threading.Barrier(2)


def take(one, other):
    with one:
        both_hold_one.wait()
        with other:
            pass


threads = [
    threading.Thread(target=take, args=(first, second)),
    threading.Thread(target=take, args=(second, first)),
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
