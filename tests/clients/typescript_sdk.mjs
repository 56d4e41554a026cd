// Drives the server with the official TypeScript SDK: typescript_sdk.mjs BINARY FOLDER,
// where FOLDER is where npm installed the SDK. Prints one line a check; the last line
// counts them. Exits 1 when a check failed.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

const [binary, folder] = process.argv.slice(2);
const require = createRequire(path.join(folder, 'package.json'));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');

const TOOLS = ['zsh', 'zsh_poll', 'zsh_send', 'zsh_kill', 'zsh_tasks', 'zsh_health'];
// Seconds for anything that should happen at once; only a fault runs it out.
const PATIENCE = 20;

let passed = 0;
let failed = 0;
function check(name, holds, seen = '') {
  if (holds) {
    passed += 1;
    console.log(`ok    ${name}`);
  } else {
    failed += 1;
    console.log(`FAIL  ${name}\n      ${JSON.stringify(seen)?.slice(0, 2000)}`);
  }
}

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'zsh-tool-typescript-'));

// The server and all that it started, told by their scratch HOME or the task cookie.
const marks = [`HOME=${scratch}\0`];
function running(...args) {
  const found = [];
  for (const pid of fs.readdirSync('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    try {
      const environment = fs.readFileSync(`/proc/${pid}/environ`, 'latin1');
      const command = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      if (marks.some((mark) => environment.includes(mark)) && args.every((arg) => command.includes(arg))) {
        found.push(command.join(' '));
      }
    } catch {
      // It has just ended, or is another user's.
    }
  }
  return found;
}

// Whether the condition comes to hold; other processes offer nothing to await.
async function eventually(holds) {
  const end = Date.now() + PATIENCE * 1000;
  while (!holds()) {
    if (Date.now() > end) return false;
    await sleep(20);
  }
  return true;
}

const text = (result) => result.content.filter((block) => block.type === 'text').map((block) => block.text).join('\n');
const taskId = (result) => /task=([0-9a-f]{8})/.exec(text(result))?.[1] ?? 'none';

async function session(client) {
  const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);

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

  result = await call('zsh', { command: 'sleep 2; echo $((6 * 7))', yield_after: 1 });
  check('yields after a second', text(result).includes('RUNNING'), result);
  result = await call('zsh_poll', { task_id: taskId(result), wait_for: 'end', listen: PATIENCE });
  check('a poll waits for the end', text(result).includes('42') && text(result).includes('exit=0'), result);

  result = await call('zsh', { command: 'print -r -- $ZSH_TOOL_TASK' });
  const instance = /^(\S+\/)[0-9a-f]{8}$/m.exec(text(result))?.[1];
  check('commands carry the cookie', instance, result);
  if (instance) marks.push(`ZSH_TOOL_TASK=${instance}`);

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

  await call('zsh', { command: 'setsid sleep 62 & sleep 63', yield_after: 0 });
  const both = await eventually(() => running('sleep', '62').length > 0 && running('sleep', '63').length > 0);
  check('two processes run at the close', both);
}

const transport = new StdioClientTransport({
  command: binary,
  args: ['serve'],
  env: { PATH: process.env.PATH, HOME: scratch, ZSH_TOOL_STATE_DIR: path.join(scratch, 'state') },
  cwd: scratch,
});
const client = new Client({ name: 'zsh-tool-checks', version: '1' });
try {
  await client.connect(transport);
  await session(client);
} catch (error) {
  check('the session goes through', false, String(error));
}
await client.close();
check('nothing is left after the close', running().length === 0, running());
fs.rmSync(scratch, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
