// Makes the pictures of the page: screenshots.mjs BINARY FOLDER. The commands are real ones of a small
// project in /tmp/demo/shop, and the run is one of a scripted agent. Takes two minutes.
import fs from 'node:fs';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { startBrowser } from './browser.mjs';
import { scratch } from './lib.mjs';
import { startServer } from './server.mjs';

const [binary, folder] = process.argv.slice(2);
const shop = '/tmp/demo/shop';
const env = { PATH: process.env.PATH, HOME: scratch, ZSH_TOOL_STATE_DIR: path.join(scratch, 'state'), ZSH_TOOL_HTTP: '127.0.0.1:0', LANG: 'C.UTF-8', TZ: 'UTC' };
const git = { GIT_AUTHOR_NAME: 'shop', GIT_AUTHOR_EMAIL: 'shop@example.org', GIT_COMMITTER_NAME: 'shop', GIT_COMMITTER_EMAIL: 'shop@example.org' };

const FILES = {
  'package.json': JSON.stringify({ name: 'shop', private: true, scripts: { test: 'sh tests.sh', lint: 'sh lint.sh', build: 'sh build.sh' } }),
  // Of all runs, some are slower and some fail: the argument is the number of the run.
  'tests.sh': `for part in cart checkout prices; do
  for name in adds_an_item removes_an_item rounds_to_cents refuses_a_negative_count keeps_the_order is_empty_at_first; do
    sleep \${PAUSE:-0.65}
    echo "test $part::$name ... ok"
  done
done
exit \${CODE:-0}
`,
  'lint.sh': 'sleep 0.2\n[ -z "$CODE" ] || echo "src/cart.js:14: unused variable total" >&2\nexit ${CODE:-0}\n',
  'build.sh': 'for page in $(seq ${PAGES:-40}); do\n  head -c 400000 /dev/zero > page.html\n  echo "page $page of ${PAGES:-40}: 400 kB"\n  sleep 0.1\ndone\n',
  'rates.py': 'import socket\nserver = socket.create_server(("127.0.0.1", 0))\nclient = socket.create_connection(server.getsockname())\nclient.recv(1)\n',
  'migrate.py': 'print("3 migrations wait: 0041_prices, 0042_stock, 0043_index")\ninput("Apply them to staging? [y/N] ")\n',
  'import.py': `import threading, time
stock, orders = threading.Lock(), threading.Lock()
def work(first, second, name):
    with first:
        print(f"{name}: has the first lock", flush=True)
        time.sleep(0.3)
        with second:
            print(f"{name}: has both")
for job in [(stock, orders, "stock"), (orders, stock, "orders")]:
    threading.Thread(target=work, args=job).start()
`,
};

// Has a run of agents made: a worker that changes a file, a check that passes, and an auditor that agrees.
function startRun() {
  const programs = path.join(scratch, 'programs');
  const script = path.join(scratch, 'script.json');
  fs.mkdirSync(programs);
  fs.mkdirSync(path.join(scratch, 'notes'));
  fs.symlinkSync(path.join(import.meta.dirname, '../fixtures/agents/fake-agent'), path.join(programs, 'claude'));
  const finished = { type: 'result', subtype: 'success', is_error: false, result: 'Prices are rounded to cents.', total_cost_usd: 0.41, num_turns: 9 };
  const worker = [{ text: 'I look at the prices first.' }, { append: { path: 'prices.js', text: 'export const cents = (price) => Math.round(price * 100) / 100;\n' } }, { json: finished }];
  const auditor = [{ json: { ...finished, result: '{"verdict": "DONE"}', total_cost_usd: 0.08, num_turns: 3 } }];
  fs.writeFileSync(script, JSON.stringify({ worker: [worker], auditor: [auditor] }));
  const agents = { PATH: `${programs}:${env.PATH}`, FAKE_AGENT: script, FAKE_AGENT_NOTES: path.join(scratch, 'notes') };
  const words = ['oneshot', '--executor', 'claude', '--check', 'npm run lint', 'Round all prices to cents'];
  const runner = spawn(binary, words, { cwd: shop, env: { ...env, ...git, ...agents }, stdio: 'ignore' });
  return new Promise((ended) => runner.on('close', ended));
}

async function makeHistory(zsh) {
  const several = async (command, times, more = () => ({})) => {
    for (let number = 0; number < times; number += 1) await zsh(command, { yield_after: 60, ...more(number) });
  };
  const at = (values) => (number) => ({ env: values[number % values.length] });
  await Promise.all([
    several('git status --short', 40),
    several('grep -rn total .', 20),
    several('git log --oneline -5', 12),
    several('npm run build', 5),
    several('npm run lint', 17, at([{}, { CODE: '1' }])),
    several('python3 rates.py', 3, () => ({ timeout: 2 })),
    ...[0.3, 0.35, 0.5, 0.55].map((pause) => several('npm test', 4, at([{ PAUSE: `${pause}` }, { PAUSE: `${pause + 0.07}` }, { PAUSE: `${pause + 0.03}` }, { PAUSE: `${pause}`, CODE: pause === 0.35 ? '1' : '0' }]))),
  ]);
}

async function take(browser, name) {
  await sleep(600);
  await browser.screenshot(path.join(folder, `dashboard-${name}.png`));
}

fs.mkdirSync(path.dirname(shop));
fs.mkdirSync(shop);
let server;
let browser;
try {
  for (const [name, text] of Object.entries(FILES)) fs.writeFileSync(path.join(shop, name), text);
  const begin = spawn('sh', ['-c', 'git init -q && git add . && git commit -q -m begin'], { cwd: shop, env: { ...env, ...git } });
  await new Promise((ended) => begin.on('close', ended));
  server = await startServer(binary, env, shop);
  await makeHistory(server.zsh);
  await server.zsh('python3 import.py', { description: 'Import stock and orders' });
  await sleep(20000);
  browser = await startBrowser();
  await browser.media({ 'prefers-color-scheme': 'light' });
  await browser.size(1280, 900);
  await browser.go(server.link);
  await server.zsh('python3 migrate.py', { pty: true, description: 'Migrate the staging database' });
  await server.zsh('PAGES=900 npm run build', { description: 'Build all pages' });
  await startRun();
  await sleep(4000);
  await server.zsh('npm test', { description: 'Run the unit tests' });
  await sleep(5000);
  await take(browser, 'light');
  await browser.run(() => document.querySelector('#history').scrollIntoView());
  await browser.run(() => scrollBy(0, -70));
  await take(browser, 'history');
  await browser.media({ 'prefers-color-scheme': 'dark' });
  await browser.run(() => scrollTo(0, 0));
  await browser.run(() => [...document.querySelectorAll('.card-title')].find((title) => title.textContent.includes('Round all')).click());
  await take(browser, 'dark');
  await browser.press('\uE00C');
  await browser.media({ 'prefers-color-scheme': 'light' });
  await browser.size(390, 844);
  await take(browser, 'narrow');
} finally {
  await browser?.close();
  server?.process.stdin.end();
  await new Promise((ended) => (server ? server.process.on('close', ended) : ended()));
  fs.rmSync(path.dirname(shop), { recursive: true });
  fs.rmSync(scratch, { recursive: true, force: true });
}
