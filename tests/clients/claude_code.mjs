// Drives the server with the real Claude Code against a scripted model, headless and in
// its terminal interface: claude_code.mjs BINARY FOLDER [long], where FOLDER holds the programs
// `claude` and `node`. What is checked is what the model is given and what a user sees; `long`
// checks the longest call alone. Exits 1 when a check failed.
import fs from 'node:fs';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { PATIENCE, check, eventually, finish, running, scratch } from './lib.mjs';
import { MESSAGES, scripted } from './scripted_api.mjs';

const [binary, programs, form] = process.argv.slice(2);
const ZSH = 'mcp__zsh-tool__zsh';
const POLL = 'mcp__zsh-tool__zsh_poll';
const taskIn = (result) => /task=([0-9a-f]{8})/.exec(result)?.[1] ?? 'none';

// The servers proper: each is the child of its guard, which is another of these processes.
const serverPids = () => {
  const parents = new Map();
  for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const serves = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('\0serve\0');
      if (serves && fs.readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`HOME=${scratch}\0`)) {
        const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
        parents.set(Number(pid), Number(/^PPid:\s+(\d+)/m.exec(status)[1]));
      }
    } catch {
      // It has ended, or is another user's.
    }
  }
  return [...parents].filter(([, parent]) => parents.has(parent)).map(([pid]) => pid);
};

const project = path.join(scratch, 'project');
fs.mkdirSync(project);
const servers = path.join(scratch, 'servers.json');
const server = { command: binary, args: ['serve'], env: { ZSH_TOOL_STATE_DIR: path.join(scratch, 'state') } };
fs.writeFileSync(servers, JSON.stringify({ mcpServers: { 'zsh-tool': server } }));

const environment = (url) => ({
  PATH: `${programs}:${process.env.PATH}`,
  HOME: scratch,
  ANTHROPIC_BASE_URL: url,
  ANTHROPIC_API_KEY: 'dummy',
  DISABLE_AUTOUPDATER: '1',
  DISABLE_ERROR_REPORTING: '1',
  DISABLE_TELEMETRY: '1',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  // It refuses to skip permissions as root outside of a sandbox.
  IS_SANDBOX: '1',
});

// Runs one prompt; the results that the model was given, and what Claude Code printed.
async function headless(steps, more = {}) {
  const api = await scripted(MESSAGES, steps);
  const args = ['-p', 'go', '--mcp-config', servers, '--strict-mcp-config', '--dangerously-skip-permissions'];
  const env = { ...environment(api.url), ...more };
  const child = spawn('claude', args, { cwd: project, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  child.stdout.on('data', (more) => (printed += more));
  child.stderr.on('data', (more) => (printed += more));
  const timer = setTimeout(() => child.kill(), 3 * PATIENCE * 1000);
  const code = await new Promise((ended) => child.on('close', ended));
  clearTimeout(timer);
  api.close();
  const lastMessages = api.turns.at(-1)?.messages.slice(-2) ?? [];
  const [first] = api.turns;
  const system = JSON.stringify([first?.system, first?.messages]);
  return { code, printed, results: api.results(), tools: first?.tools ?? [], system, lastMessages };
}

if (form === 'long') {
  const command = 'echo begun; sleep 115; echo over';
  await interactive(
    [
      { call: { name: ZSH, input: { command, timeout: 300, yield_after: 600 } } },
      (result) => ({ call: { name: POLL, input: { task_id: taskIn(result), wait_for: 'end', listen: 60 } } }),
      { text: 'the turn is over' },
    ],
    async ({ api, seen, type }) => {
      await eventually(() => seen().includes('❯'));
      const before = seen().length;
      type('go');
      await eventually(() => seen().slice(before).includes('go'));
      type('\r');
      check('its turn ends', await eventually(() => api.turns.length > 2, 200), seen().slice(-800));
      const [yielded = '', ended = ''] = api.results();
      check('a call of 110 s returns its answer', /RUNNING\S* {2}(1m50s|110\.\d)/.test(yielded), api.results());
      check('which says that it was shortened', yielded.includes('110 s is used'), yielded);
      check('and the next one the end', ended.includes('2: over') && ended.includes('✔ exit=0'), ended);
    },
  );
  finish();
}

const { code, printed, results, tools, system } = await headless([
  { call: { name: ZSH, input: { command: 'echo begun; sleep 4; echo over; exit 3', yield_after: 2.5 } } },
  (result) => ({ call: { name: POLL, input: { task_id: taskIn(result), wait_for: 'end', listen: PATIENCE } } }),
  { call: { name: ZSH, input: { command: 'true', timout: 5 } } },
  { call: { name: ZSH, input: { command: 'setsid sleep 62 & sleep 63', background: true } } },
  { call: { name: ZSH, input: { command: 'ls *.foo && echo found' } } },
  { call: { name: ZSH, input: { command: 's=HELLO; echo ${s,,}', shell: 'bash' } } },
  // The parent of a command's shell is the server.
  { call: { name: ZSH, input: { command: 'sleep 1; kill -KILL $PPID; sleep 65', yield_after: PATIENCE } } },
  { call: { name: ZSH, input: { command: 'echo again' } } },
  { text: 'the script is over' },
]);
// In its terminal interface, on a terminal that `script` provides. Only there it takes
// tasks. The steps go on as long as the interface runs.
async function interactive(steps, drive, ...more) {
  const accepted = { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true };
  const settings = {
    hasCompletedOnboarding: true,
    bypassPermissionsModeAccepted: true,
    customApiKeyResponses: { approved: ['dummy'], rejected: [] },
    projects: { [project]: accepted },
  };
  fs.writeFileSync(path.join(scratch, '.claude.json'), JSON.stringify(settings));
  const api = await scripted(MESSAGES, steps);
  const claude = `claude --mcp-config ${servers} --strict-mcp-config --dangerously-skip-permissions ${more.join(' ')}`;
  const child = spawn('script', ['-qfec', `stty rows 40 cols 140; exec ${claude}`, '/dev/null'], {
    cwd: project,
    env: { ...environment(api.url), TERM: 'xterm-256color' },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  let drawn = '';
  child.stdout.on('data', (more) => (drawn += more));
  const ended = new Promise((end) => child.on('close', end));
  // It may end before the last key below.
  child.stdin.on('error', () => {});
  await drive({
    api,
    // What has been drawn, without what moves the cursor and paints.
    seen: () => drawn.replace(/\x1b(\[[0-9;?<>=]*[a-zA-Z]|\][^\x07]*\x07)/g, ' '),
    type: (keys) => child.stdin.write(keys),
  });
  // The third answers its question when a task still runs.
  for (const key of ['\x03', '\x03', '\r']) {
    child.stdin.write(key);
    await Promise.race([ended, sleep(500)]);
  }
  const timer = setTimeout(() => child.kill(), PATIENCE * 1000);
  await ended;
  clearTimeout(timer);
  api.close();
}

const [yielded = '', polled = '', wrong = '', background = '', unmatched = '', inBash = '', cutOff = '', again = ''] = results;
check('a call is answered although its server is killed', /server restarted \(killed by SIGKILL\); task \w{8} ended with it/.test(cutOff), cutOff);
check('and the session goes on', again.includes('✔ exit=0'), again);
check('the model is told why a pattern ran nothing', /⚠ .*No file matches `\*\.foo`.*'\*\.foo'/.test(unmatched), unmatched);
check('and may run text for bash', inBash.includes('hello') && inBash.includes('shell=bash'), inBash);
check('Claude Code runs the script to its end', code === 0 && printed.includes('the script is over'), printed);
const named = tools.map((tool) => tool.name);
check('the tools for commands are at hand', [ZSH, POLL].every((name) => named.includes(name)), named);
const loaded = tools.filter((tool) => tool.name.startsWith('mcp__zsh-tool__') && !tool.defer_loading);
// They are one paragraph; what follows is not the server's.
const instructions = /## zsh-tool\\n(.*?)(\\n|",|"\})/s.exec(system)?.[1] ?? '';
const characters = JSON.stringify(loaded).length + instructions.length;
check('the instructions reach the model', instructions.length > 250, system.slice(0, 4000));
check('what each session loads is short', characters <= 7000, [characters, instructions.length]);
console.log(`      ${characters} characters of tools and instructions in each session`);
check('the model is shown the command', yielded.startsWith('$ echo begun; sleep 4; echo over; exit 3\n'), yielded);
check('and its output so far', yielded.includes('\nbegun\n'), yielded);
check('and its status', /⟳ RUNNING.*task=[0-9a-f]{8} {2}stdin=no/.test(yielded), yielded);
check('and how long it has been silent', /^◷ silent \d+s/m.test(yielded), yielded);
check('a poll gives what is new, numbered', polled.includes('2: over') && !polled.includes('begun\n'), polled);
check('and the end', /✘ exit=3/.test(polled), polled);
check('and no colours, which no person would see', !results.join('').includes('\x1b'), polled);
check('a wrong argument is named', wrong.includes('did you mean timeout'), wrong);
check('a background command is told of', /RUNNING/.test(background), background);
check('nothing is left after Claude Code', await eventually(() => running().length === 0), running());

// More than it passes on, in characters of which it counts some twice.
const long = { command: "yes '🦀🦀🦀🦀 0123456789' | cat -n | head -n 40000", max_output: 490000, yield_after: PATIENCE };
const [largest = ''] = (await headless([{ call: { name: ZSH, input: long } }, { text: 'the script is over' }])).results;
check('the longest result reaches the model whole', largest.length > 480000 && largest.length <= 490000, largest.length);
check('and names what it leaves out', /^… [\d,]+ lines omitted: zsh_poll .*from_line=\d+$/m.test(largest.slice(-1000)), largest.slice(-1000));

const notification = (turn) => turn?.messages.flatMap(({ content }) => content).findLast((block) => block.type === 'text')?.text;
await interactive(
  [
    { call: { name: ZSH, input: { command: 'for i in 1 2 3; do echo tick-$i; sleep 1; done', yield_after: 10 } } },
    { call: { name: ZSH, input: { command: 'echo early; sleep 2; echo late; exit 4', background: true } } },
    { text: 'the first turn is over' },
    { call: { name: ZSH, input: { command: 'sleep 66', background: true } } },
    (result) => ({ call: { name: 'TaskStop', input: { task_id: /background as task (\w+)/.exec(result)?.[1] ?? 'none' } } }),
    { text: 'the second turn is over' },
  ],
  async ({ api, seen, type }) => {
    check('its interface starts', await eventually(() => seen().includes('❯')), seen().slice(-500));
    const before = seen().length;
    type('go');
    await eventually(() => seen().slice(before).includes('go'));
    type('\r');
    const sees = (what) => eventually(() => seen().includes(what));
    check('it shows progress while a command runs', await sees('tick-1'), seen().slice(-1000));
    check('the turn ends while the task goes on', await sees('the first turn is over') || api.turns.length === 3);
    const [shown = '', begun = ''] = api.results();
    check('what a person watches is coloured', shown.includes('\x1b[32m✔ exit=0\x1b[0m'), shown);
    check('the model is told of a task', /server-side task [0-9a-f]{8}/.test(begun), begun);
    check('its end begins a turn by itself', await eventually(() => api.turns.length > 3), api.turns.length);
    const told = notification(api.turns[3]) ?? '';
    check('which says that it completed', told.includes('<status>completed</status>'), told);
    check('and shows the whole output', told.includes('early\nlate\n') && told.includes('✘ exit=4'), told);
    await eventually(() => api.turns.length > 5);
    check('a task that is stopped is gone', await eventually(() => running('sleep', '66').length === 0), running());
    check('and the model is told so', /[Ss]topped|cancel/.test(api.results().at(-1)), api.results().at(-1));
  },
);
// A server's end while a task of the client's runs: the next server answers for it.
const begins = (sign) => [
  { call: { name: ZSH, input: { command: `echo ${sign}; sleep 67`, background: true } } },
  { text: `begun ${sign}` },
  { text: `told of ${sign}` },
];
const toldOf = async (what, sign, api, turns) => {
  const begun = Date.now();
  await eventually(() => api.turns.length > turns);
  const [took, told] = [Date.now() - begun, notification(api.turns[turns]) ?? ''];
  check(`${what}: the model is told of the failure`, told.includes('<status>failed</status>'), told);
  check(`${what}: and why`, told.includes('the server ended before the command did'), told);
  check(`${what}: and what it printed`, told.includes(sign) && told.includes('INTERRUPTED'), told);
  console.log(`      ${what}: told after ${took} ms`);
  check(`${what}: within 5 s`, took < 5000, took);
};
const begin = async ({ api, seen, type }, sign) => {
  await eventually(() => seen().includes('❯'));
  type('go');
  await eventually(() => seen().includes('❯ go') || /❯\s+go/.test(seen()));
  type('\r');
  await eventually(() => api.turns.length > 1 && seen().includes(`begun ${sign}`));
};
const press = async ({ seen, type }, keys, what) => {
  const before = seen().length;
  type(keys);
  return eventually(() => seen().slice(before).replace(/\s+/g, '').includes(what));
};
for (const kills of [false, true]) {
  const sign = kills ? 'killed' : 'reconnected';
  await interactive(begins(sign), async (terminal) => {
    await begin(terminal, sign);
    if (kills) {
      // Another takes over the connection: a person has nothing to do.
      const [guarded] = serverPids();
      const turns = terminal.api.turns.length;
      process.kill(guarded, 'SIGKILL');
      return toldOf(sign, sign, terminal.api, turns);
    }
    check(`${sign}: its list of servers opens`, (await press(terminal, '/mcp', '/mcp')) && (await press(terminal, '\r', 'MCPservers')));
    check(`${sign}: the server's menu opens`, await press(terminal, '\r', 'Reconnect'), terminal.seen().slice(-800));
    await press(terminal, '\x1b[B', '❯Reconnect');
    const turns = terminal.api.turns.length;
    terminal.type('\r');
    await toldOf(sign, sign, terminal.api, turns);
  });
}
await interactive(begins('resumed').slice(0, 2), (terminal) => begin(terminal, 'resumed'));
await interactive([{ text: 'told' }], async ({ api, seen }) => {
  await eventually(() => seen().includes('❯'));
  await toldOf('resumed', 'resumed', api, 0);
}, '--continue');
// A detached server outlives the connection, the session and Claude Code itself.
let detached = 'none';
const pollDetached = () => ({ call: { name: POLL, input: { task_id: detached, full_output: true, listen: 0 } } });
await interactive(
  [
    { call: { name: ZSH, input: { command: 'echo serving; exec python3 -m http.server 0', detach: true } } },
    (result) => {
      detached = taskIn(result);
      return { text: 'begun detached' };
    },
    pollDetached,
    { text: 'polled detached' },
  ],
  async (terminal) => {
    await begin(terminal, 'detached');
    const before = serverPids();
    check('detached: the menu opens', (await press(terminal, '/mcp', '/mcp')) && (await press(terminal, '\r', 'MCPservers')) && (await press(terminal, '\r', 'Reconnect')));
    await press(terminal, '\x1b[B', '❯Reconnect');
    terminal.type('\r');
    const another = () => serverPids().some((pid) => !before.includes(pid));
    check('detached: another server answers', await eventually(another), [before, serverPids()]);
    check('detached: it is connected', await eventually(() => terminal.seen().includes('Reconnected')), terminal.seen().slice(-600));
    check('detached: the task still runs', running('http.server').length === 1, running());
    await begin(terminal, 'detached');
    await eventually(() => terminal.api.turns.length > 3);
    const [, polled = ''] = terminal.api.results();
    check('detached: the next server is polled', polled.includes('serving') && polled.includes('RUNNING'), polled);
  },
);
check('detached: the task outlives Claude Code', running('http.server').length === 1, running());
const next = await headless([
  { call: { name: ZSH, input: { command: 'echo hello' } } },
  pollDetached,
  () => ({ call: { name: 'mcp__zsh-tool__zsh_kill', input: { task_id: detached } } }),
  { text: 'the script is over' },
]);
const [hello = '', polledAgain = '', killed = ''] = next.results;
check('detached: a new session is told of it', hello.startsWith(`┌ detached: task '${detached}' running for `), hello);
check('detached: and polls it', polledAgain.includes('1: serving') && polledAgain.includes('RUNNING'), polledAgain);
check('detached: and kills it', killed.includes('no survivors'), killed);
check('nothing is left after its interface', await eventually(() => running().length === 0), running());

// What the reference says on permissions, taken from there: settings and a hook.
const reference = fs.readFileSync(new URL('../../data/help/permissions.txt', import.meta.url), 'utf8');
const block = (part) => reference.split('\n\n').find((text) => text.startsWith('    ') && text.includes(part)).replace(/^ {4}/gm, '') + '\n';
const folder = path.join(scratch, '.claude');
fs.mkdirSync(path.join(folder, 'hooks'), { recursive: true });
fs.writeFileSync(path.join(folder, 'hooks/refuse.sh'), block('#!/bin/sh'), { mode: 0o755 });
const settings = { ...JSON.parse(block('"permissions"')), ...JSON.parse(block('"~/.claude/hooks/refuse.sh"')) };
fs.writeFileSync(path.join(folder, 'settings.json'), JSON.stringify(settings));
fs.mkdirSync(path.join(project, 'precious'));
const guarded = await headless([
  { call: { name: ZSH, input: { command: 'rm -rf precious' } } },
  { call: { name: ZSH, input: { command: 'ls' } } },
  { text: 'the script is over' },
]);
const [refused = '', allowed = ''] = guarded.results;
check('the hook of the reference refuses by pattern', refused.includes('refused by ~/.claude/hooks/refuse.sh'), refused);
check('and lets other commands through', allowed.includes('precious') && allowed.includes('exit=0'), allowed);
check('and Bash is denied', !guarded.tools.some((tool) => tool.name === 'Bash') && tools.some((tool) => tool.name === 'Bash'), guarded.tools.map((tool) => tool.name));

// The hook that holds up a stop, once the task that nothing polls has ended.
const stops = `sleep 3; ZSH_TOOL_STATE_DIR=${server.env.ZSH_TOOL_STATE_DIR} ${binary} hook stop`;
fs.writeFileSync(path.join(folder, 'settings.json'), JSON.stringify({ hooks: { Stop: [{ hooks: [{ type: 'command', command: stops }] }] } }));
const held = await headless([
  { call: { name: ZSH, input: { command: 'sleep 1; echo late; exit 4', yield_after: 0 } } },
  { text: 'the first end' },
  { text: 'the second end' },
]);
const reason = JSON.stringify(held.lastMessages);
check('the stop hook holds up the first end and names the task', /task [0-9a-f]{8} ended \(exit=4/.test(reason), reason);
check('and lets the second end through', held.code === 0 && held.printed.includes('the second end'), held.printed);

// A call that it gives up.
fs.rmSync(path.join(folder, 'settings.json'));
const { results: after } = await headless([
  { call: { name: ZSH, input: { command: 'echo early; sleep 4; echo late; exit 4', yield_after: PATIENCE } } },
  { call: { name: ZSH, input: { command: 'echo next' } } },
  (result) => ({ call: { name: POLL, input: { task_id: /zsh_poll task_id=(\w+)/.exec(result)?.[1] ?? 'none', wait_for: 'end', listen: 1 } } }),
  (result) => ({ call: { name: POLL, input: { task_id: taskIn(result), wait_for: 'end', listen: 1.8 } } }),
  { text: 'the script is over' },
], { MCP_TOOL_TIMEOUT: '2000' });
const [up = '', reported = '', ...polls] = after;
check('it gives a call up', up.includes('timed out after 2s'), up);
check('the next answer reports its task', /┌ notify: your earlier call's command still runs as task '\w+' \(the call timed out\): zsh_poll/.test(reported), reported);
check('which goes on to its end', polls.join('').includes('late') && polls.join('').includes('✘ exit=4'), polls);
check('nothing is left in the end', await eventually(() => running().length === 0), running());
finish();
