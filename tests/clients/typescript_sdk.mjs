// Drives the server with the official TypeScript SDKs: typescript_sdk.mjs BINARY FOLDER
// SDK [CONNECTIONS], where FOLDER is where npm installed them and SDK one of
//   1        @modelcontextprotocol/sdk, which opens with `initialize`
//   legacy   @modelcontextprotocol/client, opening with `initialize`
//   auto     the same, opening with `server/discover`, and its tasks extension
// On each of CONNECTIONS more the server is killed three times.
// Prints one line a check; the last line counts them. Exits 1 when a check failed.
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { PATIENCE, check, eventually, finish, learnCookie, running, scratch, servers, text } from './lib.mjs';

const [binary, folder, sdk, connections = '3'] = process.argv.slice(2);
const require = createRequire(path.join(folder, 'package.json'));
const TOOLS = ['zsh', 'zsh_poll', 'zsh_send', 'zsh_kill', 'zsh_tasks', 'zsh_health',
  'zsh_alan_stats', 'zsh_alan_query', 'zsh_neverhang_status', 'zsh_neverhang_reset'];
const VERSION = '2026-07-28';
const INFO = { name: 'zsh-tool-checks', version: '1' };

const taskId = (result) => /task=([0-9a-f]{8})/.exec(text(result))?.[1] ?? 'none';

// A client that is not connected yet, its transport, and how it calls a tool.
function make() {
  const server = {
    command: binary,
    args: ['serve'],
    env: { PATH: process.env.PATH, HOME: scratch, ZSH_TOOL_STATE_DIR: path.join(scratch, 'state') },
    cwd: scratch,
  };
  if (sdk === '1') {
    const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
    const client = new Client(INFO);
    const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
    return { client, call, transport: new StdioClientTransport(server) };
  }
  const { Client } = require('@modelcontextprotocol/client');
  const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
  const client = new Client(INFO, { versionNegotiation: { mode: sdk } });
  const call = (name, args, options) => client.callTool({ name, arguments: args }, options);
  return { client, call, transport: new StdioClientTransport(server) };
}

async function session(client, call) {
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  check('lists the tools', TOOLS.every((name) => names.includes(name)), names);
  check('every schema is closed', tools.every((tool) => tool.inputSchema.additionalProperties === false));

  let result = await call('zsh', { command: 'echo hi' });
  check('echo hi', /^hi$/m.test(text(result)) && text(result).includes('exit=0'), result);
  check("a command's result is no error", !result.isError);

  result = await call('zsh', { command: 'exit 3' });
  check('a failing command is no error', !result.isError && text(result).includes('exit=3'), result);

  result = await call('zsh', { command: 'true', timout: 5 });
  check('an unknown argument is named', result.isError && text(result).includes('timout'), result);
  result = await call('zsh', { command: 'true', timeout: 'soon' });
  check('an argument of a wrong type is named', result.isError && text(result).includes('timeout'), result);
  const refused = await call('no_such_tool', {}).then(
    () => undefined,
    (error) => error,
  );
  check('an unknown tool is an error', refused?.code === -32602, String(refused));

  // The client validates these against the schemas that it has listed.
  for (const name of ['zsh_tasks', 'zsh_health', 'zsh_alan_stats', 'zsh_neverhang_status']) {
    result = await call(name, name === 'zsh_tasks' ? { all: true } : {});
    check(`${name} is structured as declared`, typeof result.structuredContent === 'object', result);
  }

  result = await call('zsh', { command: 'sleep 2; echo $((6 * 7))', yield_after: 1 });
  check('yields after a second', text(result).includes('RUNNING'), result);
  result = await call('zsh_poll', { task_id: taskId(result), wait_for: 'end', listen: PATIENCE });
  check('a poll waits for the end', text(result).includes('42') && text(result).includes('exit=0'), result);

  result = await call('zsh', { command: 'print -r -- $ZSH_TOOL_TASK' });
  const instance = /^(\S+\/)[0-9a-f]{8}$/m.exec(text(result))?.[1];
  check('commands carry the cookie', instance, result);
  if (instance) learnCookie(instance);

  result = await call('zsh', { command: 'sleep 60', yield_after: 0 });
  const task = taskId(result);
  check('sleep 60 runs', await eventually(() => running('sleep', '60').length > 0), result);
  result = await call('zsh_kill', { task_id: task });
  check('a kill gives a receipt', !result.isError && text(result).includes('gone'), result);
  check('sleep 60 is gone', running('sleep', '60').length === 0, running('sleep', '60'));

  const heard = [];
  const command = 'for i in 1 2 3; do echo tick $i; sleep 1; done';
  await call('zsh', { command, yield_after: PATIENCE }, { onprogress: (progress) => heard.push(progress) });
  check('progress shows the last line', heard.some((progress) => progress.message?.includes('tick 2')), heard);
  check('progress rises', heard.every((progress, at) => at === 0 || progress.progress > heard[at - 1].progress), heard);

  const abort = new AbortController();
  const cancelled = call('zsh', { command: 'sleep 61', yield_after: 50 }, { signal: abort.signal }).then(
    () => false,
    () => true,
  );
  check('sleep 61 runs', await eventually(() => running('sleep', '61').length > 0));
  abort.abort('the check is over');
  check('a cancelled call ends', await cancelled);
  check("a cancelled call's command ends", await eventually(() => running('sleep', '61').length === 0));
  result = await call('zsh', { command: 'true' });
  check('the server goes on after it', text(result).includes('exit=0'), result);

  // The parent of a command's shell is the server.
  result = await call('zsh', { command: 'sleep 1; kill -KILL $PPID; sleep 65', yield_after: PATIENCE });
  const restarted = text(result).includes('server restarted (killed by SIGKILL)');
  check('a call is answered although its server is killed', result.isError && restarted, result);
  result = await call('zsh', { command: 'echo again' });
  check('and the session goes on', text(result).includes('exit=0'), result);
  check('sleep 65 is gone', await eventually(() => running('sleep', '65').length === 0));

  await call('zsh', { command: 'setsid sleep 62 & sleep 63', yield_after: 0 });
  const both = await eventually(() => running('sleep', '62').length > 0 && running('sleep', '63').length > 0);
  check('two processes run at the close', both);
}

// Requests past the SDK's own schemas, which know no tasks: by ids of their own on the
// connected transport, as the tasks package asks its hosts to send them.
function rawDispatch(transport) {
  const waiting = new Map();
  const others = transport.onmessage;
  transport.onmessage = (message, ...more) => {
    const settle = waiting.get(message.id);
    if (settle === undefined) return others?.(message, ...more);
    waiting.delete(message.id);
    settle(message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result });
  };
  let last = 0;
  return (request) =>
    new Promise((settle, fail) => {
      const id = `raw-${(last += 1)}`;
      waiting.set(id, settle);
      transport.send({ jsonrpc: '2.0', id, ...request }).catch(fail);
    });
}

// The official tasks extension package on the same connection.
async function tasks(client, transport) {
  const found = require.resolve('@modelcontextprotocol/client');
  const root = found.slice(0, found.lastIndexOf('/client/'));
  const { createTaskSessionFromClient, TaskCancelledError } = await import(
    pathToFileURL(path.join(root, 'ext-tasks/dist/client/index.js'))
  );
  const extension = createTaskSessionFromClient(client, {
    endpointId: 'zsh-tool',
    rawDispatch: rawDispatch(transport),
    v2RequestFraming: { protocolVersion: VERSION, clientInfo: INFO, clientCapabilities: {} },
  });

  let execution = await extension.callTool('zsh', { command: 'echo now' });
  check('a plain command is answered at once', execution.kind === 'immediate', execution.kind);
  await execution.settle();

  execution = await extension.callTool('zsh', { command: 'echo one; sleep 1; echo two; exit 3', background: true });
  check('a background command becomes a task', execution.kind === 'task', execution.kind);
  const states = [];
  const { outcome } = await execution.settle({ onEvent: (event) => event.task && states.push(event.task.status) });
  check('it is seen to work', states.includes('working'), states);
  check('it completes', outcome.status === 'completed', outcome);
  check('its result is the whole output', /one\ntwo\n(.|\n)*exit=3/.test(text(outcome.result)), outcome);

  execution = await extension.callTool('zsh', { command: 'sleep 64', background: true });
  check('sleep 64 runs', await eventually(() => running('sleep', '64').length > 0));
  await execution.cancel();
  const ended = await execution.settle().then(
    (settled) => settled.outcome.status,
    (error) => (error instanceof TaskCancelledError ? 'cancelled' : String(error)),
  );
  check('a cancelled task is cancelled', ended === 'cancelled', ended);
  check('sleep 64 is gone', running('sleep', '64').length === 0, running('sleep', '64'));
  await extension.close();
}

// Calls on one connection while its server is killed at three random moments; gives what went wrong.
async function killed(number) {
  const ran = path.join(scratch, `ran-${number}`);
  const wrong = [];
  const { client, call, transport } = make();
  await client.connect(transport);
  const answered = new Set();
  const others = transport.onmessage;
  transport.onmessage = (message, ...more) => {
    if (message.method === undefined) {
      if (answered.has(message.id)) wrong.push(`answered twice: ${JSON.stringify(message).slice(0, 300)}`);
      answered.add(message.id);
    }
    return others?.(message, ...more);
  };
  let over = false;
  const kills = (async () => {
    for (let kill = 0; kill < 3; kill += 1) {
      await sleep(Math.random() * 300);
      const before = servers();
      before.forEach((pid) => process.kill(pid, 'SIGKILL'));
      if (!(await eventually(() => servers().some((pid) => !before.includes(pid))))) wrong.push('no server came back');
    }
    over = true;
  })();
  for (let calls = 0; calls < 8 || !over; calls += 1) {
    const more = ['true', 'sleep 0.05', 'seq 30000', `: ${'x'.repeat(100_000)}`][Math.floor(Math.random() * 4)];
    const result = text(await call('zsh', { command: `echo ${calls} >> ${ran}; ${more}`, yield_after: PATIENCE }));
    if (!result.includes('exit=0') && !result.startsWith('server restarted (killed by SIGKILL)')) wrong.push(result.slice(0, 300));
  }
  await kills;
  const last = text(await call('zsh', { command: 'echo over' }));
  if (!last.includes('exit=0')) wrong.push(last.slice(0, 300));
  await client.close();
  const lines = fs.existsSync(ran) ? fs.readFileSync(ran, 'utf8').trim().split('\n') : [];
  if (new Set(lines).size !== lines.length) wrong.push(`ran twice: ${lines}`);
  return wrong;
}

const { client, call, transport } = make();
try {
  await client.connect(transport);
  if (sdk !== '1') {
    const era = client.getProtocolEra();
    check(`speaks the ${sdk === 'auto' ? 'modern' : 'legacy'} era`, era === (sdk === 'auto' ? 'modern' : 'legacy'), era);
  }
  if (sdk === 'auto') await tasks(client, transport);
  await session(client, call);
  await client.close();
  const wrong = [];
  for (let number = 0; number < Number(connections); number += 1) wrong.push(...(await killed(number)));
  check(`${3 * connections} kills lose no call and repeat none`, wrong.length === 0, wrong);
} catch (error) {
  check('the session goes through', false, String(error?.stack ?? error));
}
await client.close();
check('nothing is left after the close', running().length === 0, running());
finish();
