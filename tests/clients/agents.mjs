// Drives the server with a coding agent, headless, against a scripted model: agents.mjs BINARY FOLDER
// NAME [long]. All agents go through the same script; Claude Code and Codex have files of their own for
// what is only theirs. Each is set up by `zsh-tool setup`, in a scratch HOME. What is checked is what
// the model is given; `long` checks a call of 70 s and a poll of 20 s alone. Exits 1 when a check
// failed.
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { PATIENCE, check, endRunning, eventually, finish, running, scratch } from './lib.mjs';
import { agentsIn } from './agent_setups.mjs';
import { scripted } from './scripted_api.mjs';

const [binary, programs, name, form] = process.argv.slice(2);
const project = path.join(scratch, 'project');
const environment = { PATH: `${programs}:${process.env.PATH}`, HOME: scratch, CI: 'true', NO_COLOR: '1' };

const agent = agentsIn(scratch, project, environment)[name];

const call = (tool, input) => ({ call: { name: agent.named?.(tool) ?? tool, input } });
const taskIn = (result) => /task(?:_id)?[=" :\\]+([0-9a-f]{8})/.exec(result ?? '')?.[1] ?? 'none';
const over = { text: 'the script is over' };

// Runs one prompt; what the model was given, and what the agent printed. `meanwhile` gets the agent's
// process.
async function run(steps, patience = 8 * PATIENCE, meanwhile = () => {}) {
  const api = await scripted(agent.api, steps);
  agent.prepare(api.url);
  const client = name;
  execFileSync(binary, ['setup', client], { env: environment, stdio: 'pipe' });
  const [program, ...args] = agent.command;
  const child = spawn(program, args, {
    cwd: project,
    env: { ...environment, ...agent.environment(api.url) },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own, which gets the signals of a terminal.
    detached: true,
  });
  let printed = '';
  child.stdout.on('data', (more) => (printed += more));
  child.stderr.on('data', (more) => (printed += more));
  const timer = setTimeout(() => child.kill(), patience * 1000);
  meanwhile(child);
  const code = await new Promise((ended) => child.on('close', ended));
  clearTimeout(timer);
  api.close();
  if (process.env.SHOW) fs.writeFileSync(process.env.SHOW, JSON.stringify({ code, printed, turns: api.turns }, null, 1));
  return { code, printed, results: api.results(), turns: api.turns };
}

// Cline leaves a process of its own in the background. It writes to its home as it ends.
async function endHub() {
  endRunning('--cline-hub-daemon');
  const ended = await eventually(() => running('--cline-hub-daemon').length === 0);
  if (!ended) throw new Error("Cline's background process does not end at SIGTERM");
}

fs.mkdirSync(project);

if (form === 'long') {
  const { results } = await run(
    [
      call('zsh', { command: 'sleep 69; echo woke; exit 5', yield_after: 70, timeout: 90 }),
      call('zsh', { command: 'sleep 20; echo late', background: true }),
      (result) => call('zsh_poll', { task_id: taskIn(result), wait_for: 'end', listen: 25 }),
      over,
    ],
    160,
  );
  const ended = results[0]?.includes('woke') && results[0].includes('✘ exit=5');
  // Cline gives a call up after 60 s.
  const returned = name === 'cline' && /⟳ RUNNING {2}50\.\d/.test(results[0]);
  check('a call of 70 s has its answer', ended || returned, results);
  check('a poll of 20 s has the end', results[2]?.includes('late') && results[2].includes('✔ exit=0'), results);
  await endHub();
  finish();
}

execFileSync('mkfifo', [path.join(project, 'go')]);
const tasks = () => execFileSync(binary, ['tasks', '--all', '--json'], { cwd: project, env: environment, encoding: 'utf8' });

// A task that ends unseen before each tool is called.
const notices = [];
const gated = () => call('zsh', { command: 'read < go; exit 4', background: true });
const endedThen = (tool, input) => (result) => {
  const task = taskIn(result);
  fs.writeFileSync(path.join(project, 'go'), '\n');
  const isOver = (line) => line.includes(task) && line.includes('failed');
  const limit = Date.now() + PATIENCE * 1000;
  while (!tasks().split('\n').some(isOver) && Date.now() < limit);
  notices.push({ tool, task });
  return call(tool, input);
};
let first = 'none';
const before = [
  call('zsh', { command: 'echo quick | cat; exit 3', yield_after: 10 }),
  (result) => {
    first = taskIn(result);
    return call('zsh', { command: 'false | true; echo done', yield_after: 10 });
  },
  call('zsh', { command: 'seq 1 40000; exit 7', yield_after: 30, max_output: 490000 }),
  (result) => call('zsh_poll', { task_id: taskIn(result), from_line: 20000, to_line: 20001 }),
  call('zsh', { command: "read -s 'a?Password: '", pty: true, yield_after: 10, rows: 0, cols: 0, until: '' }),
  (result) => call('zsh_kill', { task_id: taskIn(result), signal: '' }),
  call('zsh', { command: 'sleep 3; echo woke', background: true }),
  (result) => call('zsh_poll', { task_id: taskIn(result), wait_for: 'end', listen: 20 }),
  call('zsh_tasks', { all: true, host: '', limit: 0 }),
];
const tools = [
  ['zsh', { command: 'echo x' }],
  ['zsh_poll', () => ({ task_id: first, from_line: 1 })],
  ['zsh_send', () => ({ task_id: first, input: 'x' })],
  ['zsh_kill', () => ({ task_id: first })],
  ['zsh_tasks', {}],
  ['zsh_health', {}],
  ['zsh_alan_stats', {}],
  ['zsh_alan_query', { command: 'true' }],
  ['zsh_neverhang_status', {}],
  ['zsh_neverhang_reset', {}],
];
const { code, printed, results, turns } = await run([
  ...before,
  ...tools.flatMap(([tool, input]) => [
    gated(),
    (result) => endedThen(tool, typeof input === 'function' ? input() : input)(result),
  ]),
  call('zsh', { command: 'setsid sleep 62 & sleep 63', background: true }),
  over,
]);

const [quick, pipeline, long, range, password, killed, , polled, listed] = results;
const background = results.at(-1);
const seen = (text = '') => [text.slice(0, 600), text.slice(-600)];
check('the agent runs the script to its end', code === 0 && printed.includes('the script is over'), printed.slice(-1500));
check('a quick command: output and exit code', quick?.includes('quick') && quick.includes('✘ exit=3'), quick);
check('a pipeline: its parts', pipeline?.includes('pipestatus=') || pipeline?.includes('✔ exit=0'), pipeline);
check('long output: the exit code', long?.includes('✘ exit=7'), seen(long));
const isWhole = long?.includes('\n20000\n');
check('and all of it, or the call that reads the rest', isWhole || /zsh_poll task_id=[0-9a-f]{8} from_line=\d+/.test(long), seen(long));
check('and the agent has cut nothing', long?.includes('─── ') && !/truncated|omitted characters|saved to/i.test(long), seen(long));
check('a range of it', range?.includes('20000: 20000') && range.includes('20001: 20001'), range);
for (const { tool, task } of notices) {
  const notice = `┌ notify: task '${task}' failed (exit=4`;
  // A result may have it in each of two forms.
  const told = results.filter((result) => result.includes(notice));
  check(`a notice before ${tool}, once`, told.length === 1, told.map(seen));
}
check('before each of the tools', notices.length === tools.length, notices);
check('a list of tasks, its arguments filled in', listed?.includes(first) && !listed.includes('must be'), seen(listed));
check('a password prompt', password?.includes('WAITING FOR A PASSWORD') && password.includes('Password:'), password);
check('a kill', killed?.includes('no survivors') && /KILLED/.test(killed), killed);
check('a poll until the end', polled?.includes('woke') && polled.includes('✔ exit=0'), polled);
check('a background command', background?.includes('RUNNING'), background);
check('no _meta reaches the model', !JSON.stringify(turns.at(-1) ?? {}).includes('zsh-tool/result'), '');
const left = () => running().filter((line) => !line.includes('--cline-hub-daemon'));
check('nothing is left after the agent', await eventually(() => left().length === 0), left());
await endHub();

// A person who interrupts it during a call.
let interrupted = false;
await run([call('zsh', { command: 'sleep 64', yield_after: 40 }), over], 3 * PATIENCE, async (child) => {
  interrupted = await eventually(() => running('sleep', '64').length > 0, 2 * PATIENCE);
  const interrupt = () => {
    try {
      process.kill(-child.pid, 'SIGINT');
    } catch {
      // It has ended.
    }
  };
  interrupt();
  // Some ask for it twice.
  await eventually(() => running('sleep', '64').length === 0, 5);
  interrupt();
});
check('an interruption comes during the call', interrupted);
check('and ends its command', await eventually(() => running('sleep', '64').length === 0), running());
check('and nothing is left after it', await eventually(() => left().length === 0), left());
await endHub();

if (agent.listed) {
  const [program, ...args] = agent.listed;
  const listing = () => {
    const env = { ...environment, ...agent.environment('http://127.0.0.1:9') };
    const { stdout, stderr } = spawnSync(program, args, { cwd: project, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    return stdout + stderr;
  };
  const before = listing();
  check('the agent itself lists the server', /zsh-tool(?!-clients)/.test(before), before);
  execFileSync(binary, ['setup', name, '--remove'], { env: environment, stdio: 'pipe' });
  const after = listing();
  check('and not after it was removed', !/zsh-tool(?!-clients)/.test(after), after);
}
await endHub();
finish();
