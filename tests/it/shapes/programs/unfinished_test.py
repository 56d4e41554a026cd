"""A test that passes, beside a thread that does not end."""

import threading
import time
import unittest


class Case(unittest.TestCase):
    def test_starts(self):
        threading.Thread(target=time.sleep, args=(300,)).start()


if __name__ == "__main__":
    unittest.main()
