// Records runs of a real coding agent against a scripted model as fixtures of the tests in Rust:
// record_agents.mjs PROGRAMS NAME [CASE...]. PROGRAMS is the folder of the agents' programs. Writes what
// the agent prints, and what it stores as far as that is read, to
// tests/fixtures/agents/NAME/VERSION/CASE. The words of the agent's own prompts and tools are left out.
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync, spawn } from 'node:child_process';
import { agentsIn } from './agent_setups.mjs';
import { endRunning, eventually, learnHome, running, scratch } from './lib.mjs';
import { scripted } from './scripted_api.mjs';

const [programs, name, ...chosen] = process.argv.slice(2);
const fixtures = path.join(import.meta.dirname, '../fixtures/agents', name);
const prompt = 'do the thing';
const session = '11111111-1111-4111-8111-111111111111';
// Of Codex, which names its sessions itself.
const codexSession = '01a201d3-7f4b-72a2-97d5-23f326a5f9ce';

const home = path.join(scratch, 'home');
const project = path.join(scratch, 'project');
learnHome(home);
const note = path.join(project, 'a.txt');
// Seconds from the first question to a model that never answers until the agent is ended, and for
// any other run.
const HANGS = 8;
const LONGEST = 280;
// Seconds for an agent to end by itself after it was asked to.
const GRACE = 4;

const json = ['--output-format', 'stream-json', '--session-id', session];
const PROGRAMS = {
  claude: { words: ['-p', '--verbose', ...json], call: { name: 'Read', input: { file_path: note } }, storage: /^\.claude\/projects\/[^/]+\/[^/]+\.jsonl$/ },
  codex: { words: ['exec', '--json', '-'], call: { name: 'exec_command', input: { cmd: 'cat a.txt' } }, storage: /^\.codex\/sessions\/.+\.jsonl$/ },
  gemini: { words: json, call: { name: 'read_file', input: { file_path: 'a.txt' } }, storage: /^\.gemini\/tmp\/[^/]+\/(\.project_root|chats\/.+)$/ },
  qwen: { words: json, call: { name: 'read_file', input: { file_path: note } }, storage: /^\.qwen\/projects\/[^/]+\/chats\/[^/]+\.jsonl$/ },
  opencode: { words: ['run', '--format', 'json'], call: { name: 'read', input: { filePath: note } } },
  copilot: { words: ['--output-format', 'json', '--session-id', session], call: { name: 'view', input: { path: note } } },
  cline: { words: ['--json', '--', prompt], call: { name: 'read_files', input: { files: [{ path: note }] } }, storage: /^\.cline\/data\/sessions\/.+\.json$/, byArgument: true },
  aider: { words: ['--no-pretty', '--no-check-update', '--no-show-release-notes', '--no-show-model-warnings', `--message=${prompt}`], byArgument: true },
};
const CASES = {
  good: [...(PROGRAMS[name].call ? [{ call: PROGRAMS[name].call }] : []), { text: 'all is done' }],
  hung: [{ hang: true }],
  failed: [{ status: 500 }],
  limited: [{ status: 429 }],
  refused: [{ status: 401 }],
};

const environment = { PATH: `${programs}:${process.env.PATH}`, HOME: home, CI: 'true', NO_COLOR: '1', LANG: 'C.UTF-8' };

async function record(kase) {
  for (const place of [home, project]) {
    fs.rmSync(place, { recursive: true, force: true });
    fs.mkdirSync(place);
  }
  execFileSync('git', ['init', '--quiet'], { cwd: project });
  fs.writeFileSync(note, 'hello\n');
  let asked;
  const steps = CASES[kase].map((step) => () => {
    asked ??= Date.now();
    return step;
  });
  const agent = agentsIn(home, project, environment)[name];
  const api = await scripted(agent.api, steps);
  agent.prepare(api.url);
  const model = agent.model ? ['--model', agent.model] : [];
  const { words, byArgument } = PROGRAMS[name];
  const output = path.join(scratch, 'stdout');
  const stdout = fs.openSync(output, 'w');
  const child = spawn(name, [...model, ...words], {
    cwd: project,
    env: { ...environment, ...agent.environment(api.url) },
    stdio: ['pipe', stdout, 'ignore'],
    detached: true,
  });
  child.stdin.on('error', () => {});
  child.stdin.end(byArgument ? '' : prompt);
  const started = Date.now();
  let ended;
  const timer = setInterval(() => {
    const hangs = kase === 'hung' && asked && Date.now() - asked > HANGS * 1000;
    if (ended && Date.now() - ended > GRACE * 1000) process.kill(-child.pid, 'SIGKILL');
    else if (!ended && (hangs || Date.now() - started > LONGEST * 1000)) {
      ended = Date.now();
      process.kill(-child.pid, 'SIGTERM');
    }
  }, 200);
  const code = await new Promise((closed) => child.on('close', closed));
  clearInterval(timer);
  endRunning();
  await eventually(() => running().length === 0);
  fs.closeSync(stdout);
  api.close();
  console.log(`${name} ${kase}: ${ended ? 'was ended' : `exited with ${code}`}`);
  return fs.readFileSync(output, 'utf8');
}

// What is kept as it is: the messages of errors, and what tools said.
const KEPT = /^(\[?API Error|We’re currently|\d{3}\b|Chunk ID)/;
const KEPT_KEYS = ['message', 'errorMessage', 'result', 'output', 'responseBody'];
const LONG_TEXT = 60;
const LONG_LIST = 2;

// The value with the words of the agent's maker replaced, and long lists cut.
function shortened(value, key = '') {
  if (Array.isArray(value)) {
    const isListing = value.every((part) => typeof part === 'string') || ['tools', 'models', 'entries'].includes(key);
    return (isListing ? value.slice(0, LONG_LIST) : value).map((part) => shortened(part, key));
  }
  if (value && typeof value === 'object') {
    if (/schema|^properties$/.test(key) && JSON.stringify(value).length > 200) return {};
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, shortened(part, name)]));
  }
  if (typeof value !== 'string' || value.length <= LONG_TEXT || !/\s/.test(value)) return value;
  if (KEPT_KEYS.includes(key) || KEPT.test(value)) return value;
  const tag = /^<([\w-]+)/.exec(value)?.[1];
  return tag ? `<${tag}>Words of the program.</${tag}>` : 'Words of the program.';
}

// The text of a file without what is of this machine; `directory` is what its project is called.
function cleaned(text, directory) {
  const lines = text.split('\n').map((line) => {
    try {
      return JSON.stringify(shortened(JSON.parse(line)));
    } catch {
      return line;
    }
  });
  return places(lines.join('\n'), directory);
}

function places(text, directory) {
  const folder = (place) => place.replace(/[^A-Za-z0-9]/g, '-');
  return text
    .replaceAll(project, directory)
    .replaceAll(folder(project), '-work-project')
    .replaceAll(home, '/work/home')
    .replaceAll(folder(home), '-work-home')
    .replaceAll(path.resolve(programs), '/work/bin')
    .replace(/(?<!\w)\/tmp\//g, '/work/tmp/')
    .replace(/127\.0\.0\.1:\d+/g, '127.0.0.1:1')
    .replace(/(?<=Linux )\d[\w.-]+/g, '6.1');
}

function* files(place) {
  for (const entry of fs.readdirSync(place, { withFileTypes: true })) {
    const inside = path.join(place, entry.name);
    if (entry.isDirectory()) yield* files(inside);
    else if (entry.isFile()) yield inside;
  }
}

function keep(place, text) {
  fs.mkdirSync(path.dirname(place), { recursive: true });
  fs.writeFileSync(place, text);
}

const version = /\d+\.\d+\.\d+/.exec(execFileSync(name, ['--version'], { env: environment, encoding: 'utf8' }))[0];
for (const kase of chosen.length ? chosen : Object.keys(CASES)) {
  const stream = await record(kase);
  const place = path.join(fixtures, version, kase);
  const own = name === 'codex' ? /"thread_id":"([^"]+)"/.exec(stream)?.[1] : undefined;
  const named = (text) => (own ? text.replaceAll(own, codexSession) : text);
  fs.rmSync(place, { recursive: true, force: true });
  keep(path.join(place, name === 'aider' ? 'stream.txt' : 'stream.ndjson'), named(cleaned(stream, '/work/project')));
  for (const file of files(home)) {
    const inside = path.relative(home, file);
    if (!PROGRAMS[name].storage?.test(inside)) continue;
    const text = fs.readFileSync(file, 'utf8');
    const whole = inside.endsWith('.json') ? JSON.stringify(shortened(JSON.parse(text)), null, 1) + '\n' : text;
    keep(path.join(place, 'home', named(places(inside, ''))), named(cleaned(whole, '@DIRECTORY@')));
  }
  const history = path.join(project, '.aider.chat.history.md');
  if (fs.existsSync(history)) keep(path.join(place, 'project', path.basename(history)), places(fs.readFileSync(history, 'utf8'), '@DIRECTORY@'));
}
fs.rmSync(scratch, { recursive: true, force: true });
