// Drives the server with the real Codex, headless, against a scripted model: codex.mjs
// BINARY FOLDER [long], where FOLDER holds the programs `codex` and `node`. What is checked is
// what the model is given; `long` checks the longest call alone. Exits 1 when a check failed.
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { PATIENCE, check, eventually, finish, running, scratch } from './lib.mjs';
import { RESPONSES, scripted } from './scripted_api.mjs';

const [binary, programs, form] = process.argv.slice(2);
const call = (name, input) => ({ call: { name: { name, namespace: 'mcp__zsh_tool' }, input } });
const taskIn = (result) => /task=([0-9a-f]{8})/.exec(result)?.[1] ?? 'none';

const project = path.join(scratch, 'project');
const state = path.join(scratch, 'state');
fs.mkdirSync(path.join(scratch, '.codex'));
fs.mkdirSync(project);

// Runs one prompt with a model of this name; what the model was given, and what Codex printed.
// `setting` is a line of the server's own; `sandbox` is Codex's, which has none by default.
async function run(model, steps, setting = '', patience = 3 * PATIENCE, sandbox = null) {
  const api = await scripted(RESPONSES, steps);
  fs.writeFileSync(
    path.join(scratch, '.codex/config.toml'),
    `model = "${model}"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "${api.url}/v1"
wire_api = "responses"

[mcp_servers.zsh_tool]
command = "${binary}"
args = ["serve"]
${setting}
env = { ZSH_TOOL_STATE_DIR = "${state}" }
`,
  );
  const confined = sandbox ? ['--sandbox', sandbox] : ['--dangerously-bypass-approvals-and-sandbox'];
  const args = ['exec', '--skip-git-repo-check', ...confined, '--dangerously-bypass-hook-trust', 'go'];
  const environment = { PATH: `${programs}:${process.env.PATH}`, HOME: scratch };
  const child = spawn('codex', args, { cwd: project, env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  child.stdout.on('data', (more) => (printed += more));
  child.stderr.on('data', (more) => (printed += more));
  const timer = setTimeout(() => child.kill(), patience * 1000);
  const code = await new Promise((ended) => child.on('close', ended));
  clearTimeout(timer);
  api.close();
  return { code, printed, results: api.results(), tools: api.turns[0]?.tools ?? [], turns: api.turns };
}

if (form === 'long') {
  const command = 'echo begun; sleep 285; echo over';
  const longest = await run('scripted', [
    call('zsh', { command, timeout: 400, yield_after: 600 }),
    (result) => call('zsh_poll', { task_id: taskIn(result), wait_for: 'end', listen: 60 }),
    { text: 'the script is over' },
  ], '', 400);
  const [yielded = '', ended = ''] = longest.results;
  check('a call of 280 s returns its answer', /⟳ RUNNING {2}4m40s|⟳ RUNNING {2}280\.\d/.test(yielded), longest.results);
  check('which says that it was shortened', yielded.includes('280 s is used'), yielded);
  check('and the next one the end', ended.includes('2: over') && ended.includes('✔ exit=0'), ended);
  finish();
}

const { code, printed, results, tools } = await run('scripted', [
  call('zsh', { command: 'echo begun; sleep 4; echo over; exit 3', yield_after: 2.5 }),
  (result) => call('zsh_poll', { task_id: taskIn(result), wait_for: 'end', listen: PATIENCE }),
  call('zsh', { command: 'true', timout: 5 }),
  call('zsh', { command: 'setsid sleep 62 & sleep 63', background: true }),
  // The parent of a command's shell is the server.
  call('zsh', { command: 'sleep 1; kill -KILL $PPID; sleep 65', yield_after: PATIENCE }),
  call('zsh', { command: 'echo again' }),
  { text: 'the script is over' },
]);

for (const [sandbox, words] of [
  ['read-only', 'sandbox=read-only network=off'],
  ['workspace-write', 'sandbox=workspace network=off'],
  ['danger-full-access', null],
]) {
  const steps = [call('zsh', { command: `echo x > ${sandbox}` }), { text: 'the script is over' }];
  const approved = 'default_tools_approval_mode = "approve"';
  const [result = ''] = (await run('scripted', steps, approved, 3 * PATIENCE, sandbox)).results;
  check(`its sandbox ${sandbox} counts`, words ? result.includes(words) : !result.includes('sandbox='), result);
  check('and decides what is written', fs.existsSync(path.join(project, sandbox)) === (sandbox !== 'read-only'), result);
}

const [yielded = '', polled = '', wrong = '', background = '', cutOff = '', again = ''] = results;
check('a call is answered although its server is killed', /server restarted \(killed by SIGKILL\); task \w{8} ended with it/.test(cutOff), cutOff);
check('and the session goes on', again.includes('✔ exit=0'), again);
check('Codex runs the script to its end', code === 0 && printed.includes('the script is over'), printed.slice(-1500));
check('the tools are listed', JSON.stringify(tools).includes('zsh_poll'), tools);
check('the model is shown the command', yielded.includes('$ echo begun; sleep 4; echo over; exit 3\n'), yielded);
check('and its output so far', yielded.includes('\nbegun\n'), yielded);
check('and its status, without colours', /⟳ RUNNING {2}\d.*task=[0-9a-f]{8} {2}stdin=no/.test(yielded), yielded);
check('and how long it has been silent', /^◷ silent \d+s/m.test(yielded), yielded);
check('a poll gives what is new, numbered', polled.includes('2: over') && !polled.includes('begun\n'), polled);
check('and the end', /✘ exit=3/.test(polled), polled);
check('a wrong argument is named', wrong.includes('did you mean timeout'), wrong);
check('a background command is told of', /RUNNING/.test(background), background);
check('nothing is left after Codex', await eventually(() => running().length === 0), running());

// 60,000 characters, three bytes each for the most part, of which Codex would cut the middle.
const long = { command: 'for n in {1..6000}; do print -r -- "$n 日本語"; done', max_output: 100000, yield_after: PATIENCE };
const omission = /^… ([\d,]+) lines omitted \(\d.*from_line=(\d+)(?: to_line=\d+)? …$/m;
const reminder = /^… [\d,]+ lines omitted: zsh_poll task_id=[0-9a-f]{8} from_line=(\d+)$/m;
const known = await run('gpt-5.5', [
  call('zsh', long),
  (result) => call('zsh_poll', { task_id: taskIn(result), from_line: Number(reminder.exec(result)?.[1] ?? 1) }),
  { text: 'the script is over' },
]);
const [whole = '', read = ''] = known.results;
const ends = (text) => [text.slice(0, 300), text.slice(-600)];
check('of a long result Codex cuts nothing', !whole.includes('truncated') && whole.includes('\n6000 日本語\n'), ends(whole));
check('the model reads the marker where lines are omitted', omission.test(whole), ends(whole));
check('and again at the end', reminder.test(whole), ends(whole));
const next = Number(omission.exec(whole)?.[2]);
check('the call that is named reads on there', read.includes(`\n${next}: ${next} 日本語\n`), ends(read));
const unknown = await run('scripted', [call('zsh', long), { text: 'the script is over' }]);
const [cut = ''] = unknown.results;
check('with a model that it does not know Codex cuts the marker', cut.includes('truncated') && !omission.test(cut), ends(cut));
check('and the model reads it at the end', reminder.test(cut), ends(cut));

// Its Stop hook: a task that ends while the model says its last word is one more turn.
const command = `ZSH_TOOL_STATE_DIR=${state} ${binary} hook stop`;
const hooks = { hooks: { Stop: [{ hooks: [{ type: 'command', command }] }] } };
fs.writeFileSync(path.join(scratch, '.codex/hooks.json'), JSON.stringify(hooks));
execFileSync('mkfifo', [path.join(project, 'go')]);
const listed = () => {
  const environment = { PATH: process.env.PATH, HOME: scratch, ZSH_TOOL_STATE_DIR: state };
  return execFileSync(binary, ['tasks', '--all', '--json'], { cwd: project, env: environment, encoding: 'utf8' });
};
let ended = 'none';
const held = await run(
  'scripted',
  [
    call('zsh', { command: 'read < go; exit 4', background: true }),
    (result) => {
      ended = taskIn(result);
      fs.writeFileSync(path.join(project, 'go'), '\n');
      const isOver = (line) => line.includes(ended) && line.includes('failed');
      const limit = Date.now() + PATIENCE * 1000;
      while (!listed().split('\n').some(isOver) && Date.now() < limit);
      return { text: 'the first word' };
    },
    { text: 'the script is over' },
  ],
);
const asked = held.turns.map((turn) => JSON.stringify(turn.input).includes(`task ${ended} ended (exit=4`));
check('the Stop hook begins a turn with the end of the task', JSON.stringify(asked) === '[false,false,true]', { asked, printed: held.printed.slice(-1500) });
check('and holds up the turn once', held.code === 0 && held.printed.includes('the script is over'), held.printed.slice(-1500));
// A call that Codex gives up.
const { results: after } = await run('scripted', [
  call('zsh', { command: 'echo early; sleep 9; echo late; exit 4', yield_after: PATIENCE }),
  call('zsh', { command: 'echo next' }),
  (result) => call('zsh_poll', { task_id: /zsh_poll task_id=(\w+)/.exec(result)?.[1] ?? 'none', wait_for: 'end', listen: 4 }),
  (result) => call('zsh_poll', { task_id: taskIn(result), wait_for: 'end', listen: 4 }),
  call('zsh', { command: 'sleep 6', yield_after: PATIENCE }),
  call('zsh_health', {}),
  { text: 'the script is over' },
], 'tool_timeout_sec = 5');
const [up = '', reported = '', ...polls] = after;
const health = polls.pop() ?? '';
check('Codex gives a call up', up.includes('timed out awaiting tools/call after 5s'), up);
check('the next answer reports its task', /┌ notify: your earlier call's command still runs as task '\w+' \(the call timed out\): zsh_poll/.test(reported), reported);
check('which goes on to its end', polls.join('').includes('late') && polls.join('').includes('✘ exit=4'), polls);
check('and after a second one the ceiling is lower', /"ceiling_s":4\.[45]/.test(health), health);
finish();
