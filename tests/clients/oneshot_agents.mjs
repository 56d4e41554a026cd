// Runs of `zsh-tool oneshot` with a real coding agent as worker and auditor, against a scripted
// model: oneshot_agents.mjs BINARY FOLDERS NAME. What is checked is how the run ends and that no
// auditor is paid for what is no work. Exits 1 when a check failed.
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { agentsIn } from './agent_setups.mjs';
import { PATIENCE, check, finish, running, scratch } from './lib.mjs';
import { scripted } from './scripted_api.mjs';

const [binary, programs, name] = process.argv.slice(2);
const project = path.join(scratch, 'project');
const state = path.join(scratch, 'state');
const environment = { PATH: `${programs}:${process.env.PATH}`, HOME: scratch, CI: 'true', NO_COLOR: '1', ZSH_TOOL_STATE_DIR: state };
const agent = agentsIn(scratch, project, environment)[name];
fs.mkdirSync(project);
execFileSync('git', ['init', '--quiet'], { cwd: project });

// One run to its end: its exit code, what it printed, and its file. `meanwhile` gets the runner and
// the run's file.
async function oneshot(steps, args = [], meanwhile = () => {}, words = ['say that it is done']) {
  const api = await scripted(agent.api, steps);
  agent.prepare(api.url);
  const before = new Set(sessions());
  const model = agent.model ? ['--model', agent.model, '--auditor-model', agent.model] : [];
  const child = spawn(binary, ['oneshot', '--executor', name, ...model, ...args, ...words], {
    cwd: project,
    env: { ...environment, ...agent.environment(api.url) },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [result, said] = ['', ''];
  child.stdout.on('data', (more) => (result += more));
  child.stderr.on('data', (more) => (said += more));
  const id = () => sessions().find((known) => !before.has(known)) ?? args.at(-1);
  const read = () => JSON.parse(fs.readFileSync(path.join(state, 'sessions', id(), 'oneshot.json'), 'utf8'));
  meanwhile(child, read);
  const timer = setTimeout(() => child.kill('SIGTERM'), 6 * PATIENCE * 1000);
  const code = await new Promise((ended) => child.on('close', ended));
  clearTimeout(timer);
  api.close();
  const file = read();
  const roles = file.agent_sessions.map(({ role }) => role);
  return { code, result, said, file, roles, reason: file.history.at(-1).reason };
}

function sessions() {
  const place = path.join(state, 'sessions');
  return fs.existsSync(place) ? fs.readdirSync(place) : [];
}

const RETRY = { text: '{"verdict": "RETRY", "feedback": "say how, please"}' };
const DONE = { text: '{"verdict": "DONE", "feedback": ""}' };

// A model that never answers, and the moment at which it has been asked.
function hanging() {
  let ask;
  const asked = new Promise((resolve) => (ask = resolve));
  const step = () => {
    ask();
    return { hang: true };
  };
  return { asked, step };
}

const done = await oneshot([{ text: 'it is done, and here is how' }, DONE]);
check('work and its audit complete the run', done.code === 0 && done.file.state === 'COMPLETED', done);
check('the result is what the worker said', done.result.includes('it is done, and here is how'), done.result);

const refused = await oneshot([{ status: 401 }]);
check('a refused login ends the run', refused.file.state === 'FAILED' && refused.code === 1, refused);
check('it is named', refused.reason === 'auth_failed', [refused.reason, refused.said]);
check('no auditor is paid for it', refused.roles.every((role) => role === 'worker'), refused.roles);

const hung = await oneshot([{ hang: true }], ['--inactivity', '6']);
check('an endpoint that never answers ends the run', hung.file.state === 'FAILED', hung);
check('no auditor is paid for that either', hung.roles.every((role) => role === 'worker'), hung.roles);

// Some agents ask more than once for one turn, so the answer is that of the turn.
let file;
const keep = (_, read) => (file = read);
const turn = (answers) => answers[Math.min(file().agent_sessions.length, answers.length) - 1];
const turns = [{ text: 'it is done' }, RETRY, { text: 'it is done, like this' }, DONE];
const again = await oneshot([() => turn(turns)], [], keep);
check('an auditor that is not content has the work done again', again.code === 0 && again.file.iteration_count === 2, again);
check('by each in turns', again.roles.join() === 'worker,auditor,worker,auditor', again.roles);

// As long as its own tries and longer.
let from;
const outage = () => {
  from ??= Date.now();
  if (Date.now() - from < 5000) return { status: 429, headers: { 'retry-after': '2' } };
  return file().agent_sessions.at(-1).role === 'worker' ? { text: 'it is done' } : DONE;
};
const waited = await oneshot([outage], [], keep);
check('an outage that passes ends no run', waited.code === 0 && waited.file.iteration_count === 1, waited);

const mute = hanging();
const paused = await oneshot([mute.step], [], async (runner) => {
  await mute.asked;
  runner.kill('SIGINT');
});
check('Ctrl-C pauses the run', paused.code === 130 && paused.file.state === 'INTERRUPTED', paused);
const resumed = await oneshot([{ text: 'it is done now' }, DONE], ['--resume', paused.file.oneshot_id], () => {}, []);
check('it is resumed to its end', resumed.code === 0 && resumed.result.includes('it is done now'), resumed);

const deaf = hanging();
const died = await oneshot([deaf.step], [], async (_, read) => {
  await deaf.asked;
  process.kill(read().history.at(-1).pid, 'SIGKILL');
});
check('an agent that is killed ends the run', died.code === 1 && died.file.state === 'FAILED', died);
check('no auditor is paid for it', died.roles.every((role) => role === 'worker'), died.roles);

check('nothing is left running', (await running(state)).length === 0, await running(state));
finish();
