// A server of zsh-tool, spoken to over its pipes.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import readline from 'node:readline';

// Its process, the call of a tool, that of `zsh`, which gives the task's id, and, where it serves
// the page, the page's link.
export async function startServer(binary, env, cwd) {
  const server = spawn(binary, ['serve'], { stdio: ['pipe', 'pipe', 'inherit'], env, cwd });
  const waiting = new Map();
  readline.createInterface({ input: server.stdout }).on('line', (line) => {
    const message = JSON.parse(line);
    waiting.get(message.id)?.(message.result);
  });
  let last = 0;
  const send = (message) => server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const ask = (method, params) =>
    new Promise((settle) => {
      const id = (last += 1);
      waiting.set(id, settle);
      send({ id, method, params });
    });
  const call = async (name, given) => (await ask('tools/call', { name, arguments: given })).content.map(({ text }) => text).join('\n');
  const zsh = async (command, more = {}) => /task=((?:\w+:)?[0-9a-f]{8})/.exec(await call('zsh', { command, yield_after: 0.1, ...more }))?.[1];
  await ask('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'dashboard-checks', version: '1' } });
  send({ method: 'notifications/initialized' });
  const file = /\S+\/monitor\.url/.exec(await call('zsh_health', {}))?.[0];
  return { process: server, call, zsh, link: file && fs.readFileSync(file, 'utf8').trim() };
}
