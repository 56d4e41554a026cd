// Has the real Claude Code, with the plugin of this HOME, run commands in its terminal
// interface: plugin_monitor.mjs, in the directory of a project. The end of a task that nothing
// polls must begin a turn by itself; the ends of commands that calls have answered must not.
// Commands must see what a hook of the user's has written to CLAUDE_ENV_FILE, also after /clear.
// Exits 1 unless they do.
import fs from 'node:fs';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { PATIENCE, check, eventually, finish } from './lib.mjs';
import { MESSAGES, scripted } from './scripted_api.mjs';

const ZSH = 'mcp__plugin_zsh-tool_zsh-tool__zsh';
const state = path.join(process.env.HOME, '.claude.json');
const known = fs.existsSync(state) ? JSON.parse(fs.readFileSync(state, 'utf8')) : {};
fs.writeFileSync(state, JSON.stringify({
  ...known,
  hasCompletedOnboarding: true,
  customApiKeyResponses: { approved: ['dummy'], rejected: [] },
  projects: { [process.cwd()]: { hasTrustDialogAccepted: true, hasCompletedProjectOnboarding: true } },
}));

const settingsFile = path.join(process.env.HOME, '.claude', 'settings.json');
const settings = JSON.parse(fs.readFileSync(settingsFile, 'utf8'));
// The number of sessions that began before.
const hook = 'touch ~/begun; echo "export FROM_HOOK=$(wc -l <~/begun)" >>"$CLAUDE_ENV_FILE"; echo >>~/begun';
settings.hooks = { ...settings.hooks, SessionStart: [{ hooks: [{ type: 'command', command: hook }] }] };
fs.writeFileSync(settingsFile, JSON.stringify(settings));

const api = await scripted(MESSAGES, [
  { call: { name: ZSH, input: { command: 'echo quick-$((1+1)) hook-$FROM_HOOK' } } },
  { call: { name: ZSH, input: { command: 'false' } } },
  { call: { name: ZSH, input: { command: 'echo early; read < go; echo late; exit 4', yield_after: 0.2 } } },
  { text: 'the first turn is over' },
  { text: 'the second turn is over' },
  { call: { name: ZSH, input: { command: 'echo cleared hook-$FROM_HOOK' } } },
  { text: 'the third turn is over' },
]);
const fifo = spawn('mkfifo', ['go']);
await new Promise((made) => fifo.on('close', made));
const child = spawn('script', ['-qfec', `stty rows 40 cols 140; exec claude --allowed-tools ${ZSH}`, '/dev/null'], {
  env: { ...process.env, ANTHROPIC_BASE_URL: api.url, ANTHROPIC_API_KEY: 'dummy', TERM: 'xterm-256color' },
  stdio: ['pipe', 'pipe', 'ignore'],
});
let drawn = '';
child.stdout.on('data', (more) => (drawn += more));
const ended = new Promise((end) => child.on('close', end));
// It may end before the last key below.
child.stdin.on('error', () => {});
const seen = () => drawn.replace(/\x1b(\[[0-9;?<>=]*[a-zA-Z]|\][^\x07]*\x07)/g, ' ');
const sees = (what) => eventually(() => seen().includes(what));
const monitors = () =>
  fs.readdirSync('/proc').filter((pid) => {
    try {
      const environment = fs.readFileSync(`/proc/${pid}/environ`, 'latin1');
      const command = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      return command.includes('events\0--follow\0--of-client') && environment.includes(`HOME=${process.env.HOME}\0`);
    } catch {
      return false;
    }
  });

check('its interface starts', await sees('❯'), seen().slice(-800));
check('the monitor runs', await eventually(() => monitors().length > 0), seen().slice(-800));
const type = async (words) => {
  const before = seen().length;
  child.stdin.write(words);
  await eventually(() => seen().slice(before).includes(words.slice(1)));
  child.stdin.write('\r');
};
await type('go');
check('the turn ends while the task goes on', await eventually(() => api.turns.length === 4), seen().slice(-800));
check('the commands have run', api.results().at(-1)?.includes('RUNNING'), api.results());
// A quick command's end would be an event within this time.
await sleep(3000);
check('what calls have answered wakes nothing', api.turns.length === 4, api.turns.length);
// Opened for reading too, since a pipe without a reader would hold up the open.
fs.writeFileSync('go', '\n', { flag: 'r+' });
check('the end of the task begins a turn', await eventually(() => api.turns.length > 4), seen().slice(-1500));
const given = JSON.stringify(api.turns[4]?.messages.slice(-2) ?? []);
check('which says how it ended', given.includes('ended (exit=4') && given.includes('late'), given);
await sleep(3000);
check('and begins one turn only', api.turns.length === 5, api.turns.length);
check('commands see what hooks have set', api.results()[0]?.includes('quick-2 hook-0'), api.results()[0]);
await type('/clear');
const begun = () => fs.readFileSync(path.join(process.env.HOME, 'begun'), 'utf8').length;
check('another session begins', await eventually(() => begun() === 2), seen().slice(-800));
await type('go on');
check('its turn ends', await eventually(() => api.turns.length === 7), seen().slice(-800));
check('commands see what its hooks have set', api.results().at(-1)?.includes('cleared hook-1'), api.results().at(-1));
for (const key of ['\x03', '\x03', '\r']) {
  child.stdin.write(key);
  await Promise.race([ended, sleep(500)]);
}
const timer = setTimeout(() => child.kill(), PATIENCE * 1000);
await ended;
clearTimeout(timer);
api.close();
check('the monitor ends with it', await eventually(() => monitors().length === 0), monitors());
finish();
