"""The main thread joins a worker that sleeps."""

import threading
import time

worker = threading.Thread(target=time.sleep, args=(300,))
worker.start()
worker.join()
