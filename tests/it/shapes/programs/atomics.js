// The main thread, or a worker that it waits for, waits for a change that nothing makes.
const { Worker, isMainThread } = require('worker_threads');
const waits = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
if (process.argv[2] === 'worker' && isMainThread) new Worker(__filename);
else waits();
