// Drives a program that starts zsh-tool, as an installed package brings it:
// launcher.mjs NAME SECONDS PROGRAM [ARGUMENT...]. It hands everything through, its first
// answer comes within the seconds on a machine where Node starts in 40 ms, and nothing is left when
// one of its processes is killed.
// Prints one line a check; the last line counts them. Exits 1 when a check failed.
import fs from 'node:fs';
import path from 'node:path';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { check, eventually, finish, running, scratch } from './lib.mjs';

const [name, seconds, program, ...given] = process.argv.slice(2);
// The fastest of at most this many starts counts: a busy machine slows single ones down.
const STARTS = 5;
const env = { ...process.env, HOME: scratch, ZSH_TOOL_STATE_DIR: path.join(scratch, 'state') };
const run = (args, input) => spawnSync(program, [...given, ...args], { env, input, encoding: 'utf8' });

// A server that has answered `initialize`, and how long that took.
async function serve() {
  const begun = performance.now();
  const child = spawn(program, [...given, 'serve'], { env, stdio: ['pipe', 'pipe', 'ignore'] });
  const exited = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'launcher', version: '1' } };
  send({ id: 1, method: 'initialize', params });
  const { value } = await lines.next();
  const took = (performance.now() - begun) / 1000;
  return { child, exited, send, took, answered: JSON.parse(value ?? '{}').result?.serverInfo?.name };
}

// The same with a command under way.
async function serving(command, ...words) {
  const server = await serve();
  server.send({ method: 'notifications/initialized' });
  server.send({ id: 2, method: 'tools/call', params: { name: 'zsh', arguments: { command } } });
  check(`${name}: ${command} runs`, await eventually(() => running(...words).length > 0));
  return server;
}

// Most of the time of npx is Node's, which starts several times. Of that too the fastest start counts.
const NODE_STARTS_S = 0.04;
let [best, node, limit] = [Infinity, Infinity, Number(seconds)];
for (let start = 0; start < STARTS && best > limit; start += 1) {
  const begun = performance.now();
  spawnSync(process.execPath, ['-e', '0']);
  node = Math.min(node, (performance.now() - begun) / 1000);
  limit = Number(seconds) * Math.max(1, node / NODE_STARTS_S);
  const server = await serve();
  if (start === 0) check(`${name}: the server answers`, server.answered === 'zsh-tool', server.answered);
  best = Math.min(best, server.took);
  server.child.stdin.end();
  check(`${name}: exit code 0 at the end of stdin`, (await server.exited)[0] === 0);
}
check(`${name}: the first answer within ${seconds} s, as fast as this machine is`, best < limit, best);
console.log(`      ${best.toFixed(2)} s of ${limit.toFixed(2)} s`);

let ended = run(['exec', 'cat; exit 7'], 'through\n');
check(`${name}: stdin, stdout and the exit code`, ended.status === 7 && ended.stdout === 'through\n', ended);
ended = run(['exec', '--', 'print -r -- "a  b"']);
check(`${name}: arguments as they are`, ended.stdout === 'a  b\n', ended);

// npx passes no signal on: what ends its server is the end of stdin.
if (name !== 'npx') {
  const interrupted = spawn(program, [...given, 'exec', 'sleep 71'], { env, stdio: 'ignore' });
  check(`${name}: sleep 71 runs`, await eventually(() => running('sleep', '71').length > 0));
  interrupted.kill('SIGTERM');
  await once(interrupted, 'exit');
  check(`${name}: TERM ends it with its command`, await eventually(() => running().length === 0), running());
}

let server = await serving('sleep 72', 'sleep', '72');
server.child.kill('SIGKILL');
await server.exited;
server.child.stdin.end();
check(`${name}: nothing is left after a KILL of what was started`, await eventually(() => running().length === 0), running());

server = await serving('sleep 73', 'sleep', '73');
const pid = fs.readdirSync('/proc').find((entry) => {
  try {
    const words = fs.readFileSync(`/proc/${entry}/cmdline`, 'utf8').split('\0');
    const own = fs.readFileSync(`/proc/${entry}/environ`, 'utf8').includes(`HOME=${scratch}\0`);
    return own && path.basename(fs.readlinkSync(`/proc/${entry}/exe`)) === 'zsh-tool' && words[1] === 'serve';
  } catch {
    return false; // It is no process, or has just ended.
  }
});
process.kill(Number(pid), 'SIGKILL');
await server.exited;
check(`${name}: nothing is left after a KILL of the server`, await eventually(() => running().length === 0), running());
finish();
