// Runs of `zsh-tool oneshot` with the real Claude Code as worker and auditor, against a
// scripted model: oneshot_claude.mjs BINARY FOLDER, where FOLDER holds the programs
// `claude` and `node`. What is checked is what the agents are told, what they leave, and
// how the run ends. Exits 1 when a check failed.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { PATIENCE, check, eventually, finish, running, scratch } from './lib.mjs';
import { MESSAGES, scripted } from './scripted_api.mjs';

const [binary, programs] = process.argv.slice(2);
const project = path.join(scratch, 'project');
const state = path.join(scratch, 'state');
const written = path.join(project, 'hello.txt');
fs.mkdirSync(project);
// What Claude Code may do without asking is the user's to say, here as in real life.
const config = path.join(scratch, 'config.yaml');
fs.writeFileSync(config, 'executors:\n  claude: {argv: [claude, --permission-mode, acceptEdits]}\n');

// Steps that hang are never answered, as by an endpoint that has died behind its socket.
const api = {
  ...MESSAGES,
  answer: (response, body, step, number) => step.hang || MESSAGES.answer(response, body, step, number),
};

const environment = (url) => ({
  PATH: `${programs}:${process.env.PATH}`,
  HOME: scratch,
  ZSH_TOOL_STATE_DIR: state,
  ZSH_TOOL_CONFIG: config,
  ANTHROPIC_BASE_URL: url,
  ANTHROPIC_API_KEY: 'dummy',
  CLAUDE_CODE_MAX_RETRIES: '0',
  DISABLE_AUTOUPDATER: '1',
  DISABLE_ERROR_REPORTING: '1',
  DISABLE_TELEMETRY: '1',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
});

// One run to its end: its exit code, what it printed, its file and its log. It is
// interrupted once `interruptWhen` holds.
async function oneshot(url, args = [], { interruptWhen } = {}) {
  const before = new Set(sessions());
  const prompt = args.includes('--resume') ? [] : ['write hello.txt'];
  const child = spawn(binary, ['oneshot', '--executor', 'claude', ...args, ...prompt], {
    cwd: project,
    env: environment(url),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let printed = '';
  child.stdout.on('data', (more) => (printed += more));
  child.stderr.on('data', (more) => (printed += more));
  const timer = setTimeout(() => child.kill('SIGTERM'), 6 * PATIENCE * 1000);
  const over = new Promise((ended) => child.on('close', ended));
  if (interruptWhen && (await eventually(interruptWhen))) child.kill('SIGINT');
  const code = await over;
  clearTimeout(timer);
  const id = sessions().find((known) => !before.has(known)) ?? args[args.indexOf('--resume') + 1];
  const read = (name) => (id ? fs.readFileSync(path.join(state, 'sessions', id, name), 'utf8') : '');
  const log = read('oneshot-log.json').split('\n').filter(Boolean).map((line) => JSON.parse(line));
  return { code, printed, id, run: JSON.parse(read('oneshot.json') || '{}'), log };
}

function sessions() {
  const folder = path.join(state, 'sessions');
  return fs.existsSync(folder) ? fs.readdirSync(folder).filter((name) => name.length === 36) : [];
}

const states = (run) => (run.history ?? []).map((entry) => entry.state);
// The newest prompt of each turn: what the agent was told.
const prompts = (turns) =>
  turns.map((body) => JSON.stringify(body.messages.filter((message) => message.role === 'user').at(0)));
const verdict = (word, feedback) => ({ text: `I looked.\n\n${JSON.stringify({ verdict: word, feedback })}` });
const write = { call: { name: 'Write', input: { file_path: written, content: 'hello\n' } } };

{
  const model = await scripted(api, [
    write,
    { text: 'I wrote hello.txt' },
    verdict('RETRY', 'it lacks "FEEDBACK-7"'),
    { text: 'now it has it' },
    verdict('DONE', 'fine'),
  ]);
  const { code, printed, run, log } = await oneshot(model.url);
  model.close();
  check('a run ends when the auditor says so', code === 0 && run.state === 'COMPLETED', { code, printed, run });
  const way = ['CREATED', 'WORKER_EXECUTING', 'AUDIT_PENDING', 'AUDITOR_EXECUTING', 'REITERATION_PENDING'];
  check(
    'after two iterations',
    JSON.stringify(states(run)) === JSON.stringify([...way, ...way.slice(1, 4), 'COMPLETED']),
    states(run),
  );
  check('the worker did its work', fs.existsSync(written) && fs.readFileSync(written, 'utf8') === 'hello\n');
  const told = prompts(model.turns);
  check('the worker is told the task', told[0]?.includes('write hello.txt'), told[0]);
  check('the auditor is told the result', told[2]?.includes('I wrote hello.txt'), told[2]);
  check('the next worker is told the feedback', told[3]?.includes('FEEDBACK-7'), told[3]);
  check('the next auditor is told the new result only', told[4]?.includes('now it has it') && !told[4].includes('I wrote hello.txt'), told[4]);
  const kept = path.join(scratch, '.claude/projects', project.replaceAll(/[^A-Za-z0-9]/g, '-'));
  const conversations = (fs.existsSync(kept) ? fs.readdirSync(kept) : [])
    .filter((name) => name.endsWith('.jsonl'))
    .map((name) => path.basename(name, '.jsonl'));
  const known = JSON.stringify(run);
  check('each agent has a session of its own, known to the run', conversations.length === 4 && conversations.every((id) => known.includes(id)), { conversations, known });
  const numbers = log.map((line) => line.seq);
  check('the log is whole', numbers.length > 8 && numbers.every((seq, at) => at === 0 || seq === numbers[at - 1] + 1), numbers);
}

{
  const model = await scripted(api, [
    write,
    { hang: true },
    { text: 'it was there already' },
    verdict('DONE', 'fine'),
  ]);
  const { code, run, printed } = await oneshot(model.url, ['--inactivity', '5']);
  model.close();
  check('a worker that falls silent is given up', states(run).includes('RECOVERY_PENDING'), { code, printed, run });
  const recovery = (run.history ?? []).find((entry) => entry.state === 'RECOVERY_PENDING');
  check('for its silence', recovery?.reason === 'inactivity_timeout', run.history);
  check('and what it had done is taken up', code === 0 && states(run).filter((name) => name === 'WORKER_EXECUTING').length === 2, run.history);
  const told = prompts(model.turns).find((prompt) => prompt.includes('cut off'));
  check('by a worker that is told of it', told?.includes('hello.txt') && told.includes('Write'), told);
}

{
  const model = await scripted(api, [write, { hang: true }, { text: 'mended' }, verdict('DONE', 'fine')]);
  const first = await oneshot(model.url, [], { interruptWhen: () => model.turns.length === 2 });
  check('an interrupted run is paused', first.code === 130 && first.run.state === 'INTERRUPTED', first);
  check('and its agent ended', await eventually(() => running('-p').length === 0), running('-p'));
  const { code, run, log, printed } = await oneshot(model.url, ['--resume', first.id]);
  model.close();
  check('it is taken up to its end', code === 0 && run.state === 'COMPLETED', { code, printed, run });
  check('by way of what the agent left', states(run).includes('RECOVERY_PENDING') && log.some((line) => line.type === 'recovered'), run.history);
  const told = prompts(model.turns).find((prompt) => prompt.includes('cut off'));
  check('of which the next worker is told', told?.includes('Write') && told.includes('hello.txt'), told);
}

{
  const listener = http.createServer();
  await new Promise((listening) => listener.listen(0, '127.0.0.1', listening));
  const { port } = listener.address();
  listener.close();
  const nowhere = `http://127.0.0.1:${port}`;
  const { code, run, printed } = await oneshot(nowhere, ['--wait-limit', '0']);
  check('a run without an endpoint fails, told not to wait', code === 1 && run.state === 'FAILED', { code, printed, run });
  check('and names the refused connection', run.history?.at(-1)?.reason === 'connection_refused', run.history);

  const known = new Set(sessions());
  const waits = () => {
    const id = sessions().find((other) => !known.has(other));
    const file = id && path.join(state, 'sessions', id, 'oneshot.json');
    return file && fs.existsSync(file) && JSON.parse(fs.readFileSync(file, 'utf8')).state === 'REITERATION_PENDING';
  };
  const paused = await oneshot(nowhere, [], { interruptWhen: waits });
  check('else it waits, and can be paused', paused.code === 130 && paused.run.state === 'INTERRUPTED', paused);
  check('and says what it waits for', paused.printed.includes('connection_refused') && paused.printed.includes('trying again in'), paused.printed);
  const model = await scripted(api, [write, { text: 'written' }, verdict('DONE', 'fine')]);
  const resumed = await oneshot(model.url, ['--resume', paused.id]);
  model.close();
  check('and is completed once the endpoint is there', resumed.code === 0 && resumed.run.state === 'COMPLETED', resumed);
  check('in its first iteration', resumed.run.iteration_count === 1, resumed.run);
}

check('no agent is left behind', await eventually(() => running('-p').length === 0), running('-p'));
finish();
