// Drives the server with coding agents that have no file of their own here, headless, against a
// scripted model: agents.mjs BINARY FOLDER NAME [long]. Each is set up by `zsh-tool setup`, in a
// scratch HOME. What is checked is what the model is given; `long` checks a call of 70 s alone. Exits 1
// when a check failed.
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { PATIENCE, check, endRunning, eventually, finish, running, scratch } from './lib.mjs';
import { CHAT, GEMINI, scripted } from './scripted_api.mjs';

const [binary, programs, name, form] = process.argv.slice(2);
const project = path.join(scratch, 'project');
const environment = { PATH: `${programs}:${process.env.PATH}`, HOME: scratch, CI: 'true', NO_COLOR: '1' };

function write(file, value) {
  const place = path.join(scratch, file);
  fs.mkdirSync(path.dirname(place), { recursive: true });
  fs.writeFileSync(place, JSON.stringify(value, null, 2));
}

// How each is given the model at `url`, and started.
const AGENTS = {
  gemini: {
    api: GEMINI,
    prepare: () =>
      write('.gemini/settings.json', {
        security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
        privacy: { usageStatisticsEnabled: false },
      }),
    environment: (url) => ({ GEMINI_API_KEY: 'x', GOOGLE_GEMINI_BASE_URL: url }),
    command: ['gemini', '-p', 'go', '--yolo', '-m', 'gemini-2.5-pro'],
    listed: ['gemini', 'mcp', 'list'],
  },
  qwen: {
    api: CHAT,
    prepare: () =>
      write('.qwen/settings.json', {
        security: { auth: { selectedType: 'openai' } },
        privacy: { usageStatisticsEnabled: false },
      }),
    environment: (url) => ({ OPENAI_API_KEY: 'x', OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: 'scripted' }),
    command: ['qwen', '-p', 'go', '--yolo'],
    listed: ['qwen', 'mcp', 'list'],
  },
  opencode: {
    api: CHAT,
    prepare: (url) =>
      write('.config/opencode/opencode.json', {
        model: 'scripted/scripted',
        provider: {
          scripted: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: `${url}/v1`, apiKey: 'x' },
            models: { scripted: { name: 'scripted' } },
          },
        },
      }),
    environment: () => ({ OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1' }),
    command: ['opencode', 'run', 'go'],
    listed: ['opencode', 'mcp', 'list'],
  },
  copilot: {
    api: CHAT,
    prepare: () => {},
    environment: (url) => ({
      COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
      COPILOT_PROVIDER_API_KEY: 'x',
      COPILOT_MODEL: 'gpt-4.1',
      COPILOT_OFFLINE: 'true',
    }),
    command: ['copilot', '-p', 'go', '--allow-all-tools', '--allow-all-paths'],
    listed: ['copilot', 'mcp', 'list'],
  },
  cline: {
    api: CHAT,
    prepare: (url) => {
      const words = ['auth', '-p', 'openai', '-k', 'x', '-m', 'scripted', '-b', `${url}/v1`];
      execFileSync('cline', words, { cwd: project, env: environment, stdio: 'pipe' });
    },
    environment: () => ({}),
    command: ['cline', '-t', '100', 'fix the tests'],
    listed: ['cline', 'config', 'mcp'],
  },
};
const agent = AGENTS[name];

const call = (tool, input) => ({ call: { name: tool, input } });
const taskIn = (result) => /task(?:_id)?[=" :\\]+([0-9a-f]{8})/.exec(result ?? '')?.[1] ?? 'none';
const over = { text: 'the script is over' };

// Runs one prompt; what the model was given, and what the agent printed.
async function run(steps, patience = 4 * PATIENCE) {
  const api = await scripted(agent.api, steps);
  agent.prepare(api.url);
  const client = name;
  execFileSync(binary, ['setup', client], { env: environment, stdio: 'pipe' });
  const [program, ...args] = agent.command;
  const child = spawn(program, args, {
    cwd: project,
    env: { ...environment, ...agent.environment(api.url) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  child.stdout.on('data', (more) => (printed += more));
  child.stderr.on('data', (more) => (printed += more));
  const timer = setTimeout(() => child.kill(), patience * 1000);
  const code = await new Promise((ended) => child.on('close', ended));
  clearTimeout(timer);
  api.close();
  if (process.env.SHOW) fs.writeFileSync(process.env.SHOW, JSON.stringify({ code, printed, turns: api.turns }, null, 1));
  return { code, printed, results: api.results(), turns: api.turns };
}

fs.mkdirSync(project);

if (form === 'long') {
  const { results } = await run([call('zsh', { command: 'sleep 69; echo woke; exit 5', yield_after: 70, timeout: 90 }), over], 120);
  check('a call of 70 s has its answer', results[0]?.includes('woke') && results[0].includes('✘ exit=5'), results);
  finish();
}

execFileSync('mkfifo', [path.join(project, 'go')]);
const tasks = () => execFileSync(binary, ['tasks', '--all', '--json'], { cwd: project, env: environment, encoding: 'utf8' });
let noticed = 'none';
const { code, printed, results, turns } = await run([
  call('zsh', { command: 'echo quick | cat; exit 3', yield_after: 10 }),
  call('zsh', { command: 'false | true; echo done', yield_after: 10 }),
  call('zsh', { command: 'seq 1 40000; exit 7', yield_after: 30, max_output: 490000 }),
  (result) => call('zsh_poll', { task_id: taskIn(result), from_line: 20000, to_line: 20001 }),
  call('zsh', { command: 'read < go; exit 4', background: true }),
  (result) => {
    noticed = taskIn(result);
    fs.writeFileSync(path.join(project, 'go'), '\n');
    const isOver = (line) => line.includes(noticed) && line.includes('failed');
    const limit = Date.now() + PATIENCE * 1000;
    while (!tasks().split('\n').some(isOver) && Date.now() < limit);
    return call('zsh_health', {});
  },
  call('zsh_tasks', { all: true, host: '', limit: 0 }),
  call('zsh', { command: "read -s 'a?Password: '", pty: true, yield_after: 10, rows: 0, cols: 0, until: '' }),
  (result) => call('zsh_kill', { task_id: taskIn(result), signal: '' }),
  call('zsh', { command: 'sleep 3; echo woke', background: true }),
  (result) => call('zsh_poll', { task_id: taskIn(result), wait_for: 'end', listen: 20 }),
  call('zsh', { command: 'setsid sleep 62 & sleep 63', background: true }),
  over,
]);

const [quick, pipeline, long, range, , health, listed, password, killed, , polled, background] = results.map((it) => it ?? '');
const seen = (text = '') => [text.slice(0, 600), text.slice(-600)];
check('the agent runs the script to its end', code === 0 && printed.includes('the script is over'), printed.slice(-1500));
check('a quick command: output and exit code', quick?.includes('quick') && quick.includes('✘ exit=3'), quick);
check('a pipeline: its parts', pipeline?.includes('pipestatus=') || pipeline?.includes('✔ exit=0'), pipeline);
check('long output: the exit code', long?.includes('✘ exit=7'), seen(long));
check('and the call that reads the rest', /zsh_poll task_id=[0-9a-f]{8} from_line=\d+/.test(long), seen(long));
check('and the agent has cut nothing', long?.includes('─── ') && !/truncated|omitted characters|saved to/i.test(long), seen(long));
check('a range of it', range?.includes('20000: 20000') && range.includes('20001: 20001'), range);
const notice = `┌ notify: task '${noticed}' failed (exit=4`;
check('a notice before zsh_health', health?.includes(notice), seen(health));
check('and not again', !listed?.includes(notice), seen(listed));
check('a list of tasks, its arguments filled in', listed?.includes(noticed) && !listed.includes('must be'), seen(listed));
check('a password prompt', password?.includes('WAITING FOR A PASSWORD') && password.includes('Password:'), password);
check('a kill', killed?.includes('no survivors') && /KILLED/.test(killed), killed);
check('a poll until the end', polled?.includes('woke') && polled.includes('✔ exit=0'), polled);
check('a background command', background?.includes('RUNNING'), background);
check('no _meta reaches the model', !JSON.stringify(turns.at(-1) ?? {}).includes('zsh-tool/result'), '');
// Cline leaves a process of its own in the background.
const left = () => running().filter((line) => !line.includes('--cline-hub-daemon'));
check('nothing is left after the agent', await eventually(() => left().length === 0), left());
endRunning('--cline-hub-daemon');
if (agent.listed) {
  const [program, ...args] = agent.listed;
  const listing = () => {
    const env = { ...environment, ...agent.environment('http://127.0.0.1:9') };
    const { stdout, stderr } = spawnSync(program, args, { cwd: project, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    return stdout + stderr;
  };
  const before = listing();
  check('the agent itself lists the server', before.includes('zsh-tool'), before);
  execFileSync(binary, ['setup', name, '--remove'], { env: environment, stdio: 'pipe' });
  const after = listing();
  check('and not after it was removed', !after.includes('zsh-tool'), after);
}
finish();
