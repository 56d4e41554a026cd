// Drives the dashboard in a headless Chromium: dashboard.mjs BINARY. The tasks are real
// ones of a real server, of a second server and of `zsh-tool exec`.
// Prints one line a check; the last line counts them. Exits 1 when a check failed.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { KEYS, startBrowser } from './browser.mjs';
import { check, eventually, finish, running, scratch } from './lib.mjs';
import { startServer as serve } from './server.mjs';

const [binary] = process.argv.slice(2);
const LEAST_CONTRAST = 4.5;
const MOST_TABS = 80;
const SIZES = { wide: [1280, 900], narrow: [390, 844] };
const SHELL = { PATH: process.env.PATH, HOME: scratch, ZSH_TOOL_STATE_DIR: path.join(scratch, 'state'), LANG: 'C.UTF-8' };
const started = [];

async function startServer(environment = {}) {
  const server = await serve(binary, { ...SHELL, ...environment }, scratch);
  started.push(server.process);
  return server;
}

// What is asked in the page. Each runs there, so it uses nothing from here.
const card = (id) => `[data-id="${id}"]`;
const textOf = (selector) => document.querySelector(selector)?.textContent ?? '';
const says = (selector, text) => document.querySelector(selector)?.textContent.includes(text) ?? false;
const shows = (selector) => document.querySelector(selector)?.checkVisibility() ?? false;
const scrollsSideways = () => document.documentElement.scrollWidth > document.documentElement.clientWidth;

// Texts whose contrast with what is behind them is too low, by WCAG's formula.
function lowContrasts(least) {
  const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const [red, green, blue] = [r, g, b].map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour[3] === undefined || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !parent.checkVisibility() || parent.closest('.unseen, .skip')) continue;
    const style = getComputedStyle(parent);
    const text = luminance(channels(parent.closest('svg') ? style.fill : style.color));
    const ground = luminance(behind(parent));
    const contrast = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    if (contrast < least) low.push(`${contrast.toFixed(2)} ${parent.className.baseVal ?? parent.className}: ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  return low;
}

// Presses Tab until the element that fits has the focus.
async function tabTo(selector) {
  for (let presses = 0; presses < MOST_TABS; presses += 1) {
    if (await browser.run((wanted) => document.activeElement.matches(wanted), selector)) return true;
    await browser.press(KEYS.Tab);
  }
  return false;
}

async function withoutToken(server) {
  await browser.go(server.link.replace(/#.*/, ''));
  check('without a token the page says how to get the link', await browser.until(shows, '#gate') && await browser.run(says, '#gate', 'zsh-tool monitor'));
  check('without a token no data is shown', !(await browser.run(shows, '#main')));
  await browser.run(() => {
    document.querySelector('#gate-token').value = 'f'.repeat(64);
    document.querySelector('#gate-form').requestSubmit();
  });
  check('a wrong token is refused', await browser.until(says, '#gate-reason', 'not valid'));
  const refusals = (await browser.complaints()).filter((message) => !message.includes('401'));
  check('nothing but the refusals is complained of', refusals.length === 0, refusals);
}

async function list(server, other) {
  const busy = await server.zsh('for i in {1..600}; do echo "step $i of 600"; sleep 0.2; done', { description: 'Counts to 600' });
  const ask = await server.zsh('read "?Continue? "', { pty: true });
  const wicked = `echo '<script>alert(1)</script><img src=x onerror=alert(2)>'; sleep 300 #<b>bold</b>`;
  const html = await server.zsh(wicked);
  const foreign = await other.zsh('echo from elsewhere; sleep 301');
  const question = await other.zsh(`read "?Name? " name; read -rs "?Password: " word; echo; print "hello $name, \${#word} characters"; sleep 304`, { pty: true });
  const detached = await other.zsh('echo detached; sleep 305', { detach: true });
  await server.zsh('exit 3', { yield_after: 10 });

  await browser.go('about:blank');
  await browser.go(server.link);
  check('the link opens the page', await browser.until(says, '#connection', 'Live'));
  check('the token leaves the address', !(await browser.run(() => location.href)).includes('token'));
  await browser.press(KEYS.Tab);
  check('the first stop skips to the sessions', await browser.run(() => document.activeElement.classList.contains('skip')));
  for (const id of [busy, ask, html, foreign, question, detached]) check(`task ${id} appears`, await browser.until(shows, card(id)));
  check('the task shows its command', await browser.until(says, `${card(busy)} .card-title`, 'step $i of 600'));
  check('the task shows its description', await browser.run(says, card(busy), 'Counts to 600'));
  check('the failed task is among the ended ones', await browser.until(says, '.group-ended', 'Exit 3'));
  check('what waits for input is among what needs attention', await browser.until(says, '.group-attention', 'Continue?'));
  check('what needs attention comes first', await browser.run(() => document.querySelector('.group:not([hidden])').classList.contains('group-attention')));
  const before = await browser.run(textOf, `${card(busy)} .tail`);
  check('the tail of the output moves', await browser.until((selector, was) => document.querySelector(selector).textContent !== was, `${card(busy)} .tail`, before));
  const evidence = await browser.until(says, `${card(busy)} .card-facts`, 'cpu');
  check('the evidence shows', evidence, await browser.run(textOf, card(busy)));
  const age = await browser.run(textOf, `${card(busy)} .card-time`);
  check('the elapsed time moves', await browser.until((selector, was) => document.querySelector(selector).textContent !== was, `${card(busy)} .card-time`, age));
  check('a new task appears by itself', await browser.until(shows, card(await server.zsh('sleep 302'))));
  return { busy, ask, html, foreign, question, detached };
}

async function markup({ html }) {
  check('output with markup shows as text', await browser.until(says, `${card(html)} .tail`, '<script>alert(1)</script><img src=x onerror=alert(2)>'));
  check('a command with markup shows as text', await browser.run(says, `${card(html)} .card-title`, '<b>bold</b>'));
  await browser.click(`${card(html)} .card-title`);
  check('the details show it as text', await browser.until(says, '.output', '<script>alert(1)</script>'));
  check('the title of the details as well', await browser.run(says, '.details-title', '<b>bold</b>'));
  check('no element came of it', await browser.run(() => document.querySelectorAll('main b, main img, main script').length === 0));
  check('nothing of it ran', await browser.run(() => globalThis.alerts === 0));
  await browser.press(KEYS.Escape);
}

async function keyboard({ busy, foreign }) {
  check('Tab gets to a task', await tabTo(`${card(busy)} .card-title`));
  const ring = await browser.run(() => getComputedStyle(document.activeElement, '::after').outlineStyle);
  check('the focus shows', ring === 'solid', ring);
  await browser.press(KEYS.Enter);
  check('Enter opens the details', await browser.until(shows, '#details'));
  check('the focus goes to them', await browser.run(() => document.querySelector('#details').contains(document.activeElement)));
  check('the output follows', await browser.until(says, '.output', 'step 1 of 600'));
  const lines = await browser.run(() => document.querySelector('.output').textContent.length);
  check('the output grows', await browser.until((was) => document.querySelector('.output').textContent.length > was, lines));
  check('no line comes twice', await browser.run(() => document.querySelector('.output').textContent.split('step 1 of 600').length === 2));
  check('the facts are there', await browser.run(says, '.facts', 'Directory'));
  check('the counts of progress are there', await browser.until(() => /\d+ heartbeats?/.test(document.querySelector('#details').textContent)));
  await scrollLock();
  await browser.press(KEYS.Escape);
  check('Esc closes them', !(await browser.run(shows, '#details')));
  check('the focus goes back to the task', await browser.run((selector) => document.activeElement.matches(selector), `${card(busy)} .card-title`));
  await browser.press(KEYS.Enter);
  await statusCheck();
  await killByKeyboard(busy);
  await foreignTask(foreign);
}

async function flood(server) {
  const id = await server.zsh('yes "a line of a flood"');
  await browser.until(shows, card(id));
  await browser.click(`${card(id)} .card-title`);
  check('a flood shows', await browser.until(says, '.output', 'a line of a flood'));
  check('a flood is cut', await browser.run(() => document.querySelector('.output').textContent.split('\n').length < 5000));
  await browser.click('.buttons .danger');
  check('it asks before it ends a flood', await browser.until(() => document.querySelector('#confirm').open));
  await browser.click('#confirm-yes');
  check('the page can be used in a flood', await browser.until(says, '#details .badge', 'Killed'), await browser.run(textOf, '#details'));
  await browser.press(KEYS.Escape);
  const bar = await server.zsh('for i in {1..30}; do printf "\\rdone: %d %%" $i; sleep 0.05; done; echo');
  await browser.until(shows, card(bar));
  await browser.click(`${card(bar)} .card-title`);
  check('a line that is written over shows its last state', await browser.until(() => document.querySelector('.output').textContent.trim().endsWith('done: 30 %')), await browser.run(textOf, '.output'));
  await browser.press(KEYS.Escape);
}

// A task that has ended and left a process behind.
async function leftovers(server) {
  const id = await server.zsh('sleep 303 & echo begun', { yield_after: 5 });
  check('what a task has left running is not among the ended ones', await browser.until(says, `.group-running ${card(id)}`, '1 left running'));
  await browser.click(`${card(id)} .card-title`);
  await browser.click('.buttons .danger');
  check('it asks before it ends that', await browser.until(says, '#confirm-title', 'what is left'));
  await browser.click('#confirm-yes');
  check('what was left is ended', await browser.until(says, `.group-ended ${card(id)}`, 'Completed'), await browser.run(textOf, card(id)));
  check('no process of it is left', running('sleep', '303').length === 0);
  await browser.press(KEYS.Escape);
}

// An agent run with an agent program of the test's own, stopped from the page.
async function run() {
  const agent = path.join(scratch, 'agent.sh');
  fs.writeFileSync(agent, 'cat\nwhile sleep 0.2; do echo "the agent works <b>hard</b>"; done\n');
  const settings = path.join(scratch, 'agents.yaml');
  fs.writeFileSync(settings, `executors:\n  worker-of-the-test:\n    argv: [sh, ${agent}]\n`);
  const runner = spawn(binary, ['oneshot', '--executor', 'worker-of-the-test', 'Make it <i>work</i>'], { stdio: 'ignore', env: { ...SHELL, ZSH_TOOL_CONFIG: settings }, cwd: scratch });
  const ended = new Promise((settle) => runner.on('exit', settle));
  check('a run appears', await browser.until(() => document.querySelector('.group-running')?.textContent.includes('Make it <i>work</i>')), await browser.run(textOf, '#groups'));
  await browser.run(() => [...document.querySelectorAll('.card-title')].find((title) => title.textContent.includes('Make it')).click());
  check('it tells its phase and iteration', await browser.until(says, '.facts', 'worker, iteration 1 of'), await browser.run(textOf, '.facts'));
  check('its log follows', await browser.until(says, '.output', 'the agent works <b>hard</b>'), await browser.run(textOf, '.output'));
  await browser.click('.buttons .danger');
  check('it asks before it stops a run', await browser.until(says, '#confirm-title', 'Stop this run?'));
  await browser.click('#confirm-yes');
  check('the run is stopped', await browser.until(says, '#details .badge', 'Failed'), await browser.run(textOf, '#details'));
  check('the reason is told', await browser.until(says, '.facts', 'user_cancelled'), await browser.run(textOf, '.facts'));
  await ended;
  check('its agent is gone', running(agent).length === 0, running(agent));
  await browser.press(KEYS.Escape);
}

async function scrollLock() {
  const scrolled = await browser.until(() => {
    const output = document.querySelector('.output');
    return output.scrollHeight > output.clientHeight + 100;
  });
  check('the output gets longer than its window', scrolled);
  await browser.run(() => (document.querySelector('.output').scrollTop = 0));
  check('scrolling back lets go of the end', await browser.until(() => document.querySelector('.output-head .button').getAttribute('aria-pressed') === 'false'));
  const length = await browser.run(() => document.querySelector('.output').textContent.length);
  await browser.until((was) => document.querySelector('.output').textContent.length > was, length);
  check('what comes does not move it', await browser.run(() => document.querySelector('.output').scrollTop === 0));
  await browser.click('.output-head .button');
  check('Follow goes to the end again', await browser.until(() => {
    const output = document.querySelector('.output');
    return output.scrollHeight - output.scrollTop - output.clientHeight < 30;
  }));
}

async function statusCheck() {
  await browser.until(shows, '#details');
  await browser.click('.buttons .button:nth-child(2)');
  check('the judge answers', await browser.until(says, '.answer', 'The judge says'), await browser.run(textOf, '.answer'));
}

async function killByKeyboard(id) {
  await browser.run(() => document.querySelector('#details-title').focus());
  check('Tab gets to the kill button', await tabTo('.buttons .danger'));
  await browser.press(KEYS.Enter);
  check('it asks first', await browser.until(() => document.querySelector('#confirm').open));
  check('the safe answer has the focus', await browser.run(() => document.activeElement.id === 'confirm-no'));
  await browser.press(KEYS.Escape);
  check('Esc is no', await browser.until(() => !document.querySelector('#confirm').open));
  check('the details stay', await browser.run(shows, '#details'));
  check('the task still runs', await browser.run(says, '#details .badge', 'Progressing'), await browser.run(textOf, '#details .badge'));
  await browser.press(KEYS.Enter);
  await browser.until(() => document.querySelector('#confirm').open);
  await browser.press(KEYS.Tab);
  await browser.press(KEYS.Enter);
  check('the task is killed', await browser.until(says, '#details .badge', 'Killed'), await browser.run(textOf, '#details'));
  check('it is told to readers of the screen', await browser.until(says, '#announcer', 'Killed'), await browser.run(textOf, '#announcer'));
  check('it moves to the ended ones', await browser.until(shows, `.group-ended ${card(id)}`));
  check('the focus is not lost', await browser.run(() => document.activeElement !== document.body));
  await browser.press(KEYS.Escape);
}

async function foreignTask(id) {
  check('a task of another server names it', await browser.run(says, `${card(id)} .card-meta`, 'server '));
  await browser.click(`${card(id)} .card-title`);
  await browser.click('.buttons .danger');
  await browser.until(() => document.querySelector('#confirm').open);
  await browser.click('#confirm-yes');
  check('a task of another server is killed', await browser.until(says, '#details .badge', 'Killed'), await browser.run(textOf, '#toast'));
  check('no process of it is left', running('sleep', '301').length === 0);
  await browser.press(KEYS.Escape);
}

// What waits for input: a question and then a password, answered on the card and in the details.
async function input({ ask, question }) {
  const field = `${card(question)} .input input`;
  await browser.run(() => scrollTo(0, 0));
  const typeOf = (selector) => document.querySelector(selector)?.type;
  check('a task that waits has a field', await browser.until(shows, field));
  check('one that does not has none', await browser.run(() => [...document.querySelectorAll('.group-running .input')].every((form) => form.hidden)));
  check('the field shows what is typed', (await browser.run(typeOf, field)) === 'text');
  await browser.click(field);
  check('a click into it opens no details', !(await browser.run(shows, '#details')));
  await browser.type('Ada');
  await browser.press(KEYS.Enter);
  check('the field of a password is masked', await browser.until((selector) => document.querySelector(selector)?.type === 'password', field));
  check('it is not filled in', (await browser.run((selector) => document.querySelector(selector).autocomplete, field)) === 'off');
  check('nothing is left in it', (await browser.run((selector) => document.querySelector(selector).value, field)) === '');
  await browser.click(`${card(question)} .card-title`);
  check('the details have the field as well', await browser.until(shows, '#details .input input'));
  await browser.click('#details .input input');
  await browser.type('hunter2 hunter2');
  await browser.press(KEYS.Enter);
  check('what is typed arrives', await browser.until(says, '.output', 'hello Ada, 15 characters'), await browser.run(textOf, '.output'));
  check('the password is not shown', !(await browser.run(() => document.documentElement.outerHTML.includes('hunter2'))));
  check('the field goes', await browser.until(() => document.querySelector('#details .input').hidden));
  check('the focus stays in the details', await browser.run(() => document.querySelector('#details').contains(document.activeElement)));
  await browser.press(KEYS.Escape);
  await refusedInput(ask);
}

// The server's own words stand beside the field; here a proxy for them answers.
async function refusedInput(id) {
  await browser.run(() => {
    globalThis.realFetch = globalThis.fetch;
    globalThis.fetch = async () => new Response(JSON.stringify({ error: 'it is stopped' }), { status: 409 });
  });
  await browser.click(`${card(id)} .input input`);
  await browser.type('yes');
  await browser.press(KEYS.Enter);
  check('a refusal stands beside the field', await browser.until(says, `${card(id)} .input-error`, 'Not sent: it is stopped'));
  check('what was typed stays', (await browser.run((selector) => document.querySelector(selector).value, `${card(id)} .input input`)) === 'yes');
  await browser.run(() => (globalThis.fetch = globalThis.realFetch));
}

// A detached task is marked, and killed as any other.
async function detachedTask(id) {
  check('a detached task is marked', await browser.until(shows, `${card(id)} .tag`));
  check('others are not', await browser.run(() => [...document.querySelectorAll('.tag')].filter((tag) => !tag.hidden).length === 1));
  check('it tells its client and its limit', await browser.run(() => /detached by dashboard-checks, until \S/.test(document.querySelector('#groups').textContent)), await browser.run(textOf, card(id)));
  await browser.click(`${card(id)} .card-title`);
  check('its project is a fact', await browser.until(says, '.facts', 'Project'));
  await browser.click('.buttons .danger');
  await browser.until(() => document.querySelector('#confirm').open);
  await browser.click('#confirm-yes');
  check('a detached task is killed and stays in the list', await browser.until(says, `.group-ended ${card(id)}`, 'Killed'), await browser.run(textOf, '#toast'));
  check('no process of it is left', await eventually(() => running('sleep', '305').length === 0));
  await browser.press(KEYS.Escape);
}

async function history(server) {
  for (const seconds of ['0.05', '0.1', '0.2', '0.1']) await server.zsh(`sleep ${seconds}`, { yield_after: 10 });
  for (const code of [0, 1, 0]) await server.zsh(`zsh -c 'exit ${code}'`, { yield_after: 10 });
  check('the outcomes are drawn', await browser.until(() => document.querySelectorAll('#outcomes .outcome-bar rect').length > 1));
  check('the command that ran often has its bar', await browser.until(says, '#outcomes', '4 succeeded'), await browser.run(textOf, '#outcomes'));
  await browser.run(() => [...document.querySelectorAll('.outcome-row')].find((row) => row.textContent.includes('4 succeeded')).click());
  check('the durations are drawn', await browser.until(() => document.querySelectorAll('#durations .dot').length > 1));
  const names = await browser.run(() => [...document.querySelectorAll('#durations .statistic-name')].map((node) => node.textContent));
  check('median and p90 are drawn', names.length === 2 && names[0].startsWith('median') && names[1].startsWith('p90'), names);
  check('the axis has units', await browser.run(() => [...document.querySelectorAll('#durations text')].some((node) => / (ms|s|min)$/.test(node.textContent))));
  await browser.run(() => document.querySelector('#durations .dot[tabindex="0"]').focus());
  check('the focus shows a tooltip', await browser.until(shows, '#durations .tooltip'));
  const first = await browser.run(() => document.activeElement.getAttribute('aria-label'));
  await browser.press(KEYS.Left);
  const second = await browser.run(() => document.activeElement.getAttribute('aria-label'));
  check('the arrow keys go from run to run', first !== second && second, [first, second]);
  await browser.press(KEYS.Escape);
  check('Esc hides the tooltip', !(await browser.run(shows, '#durations .tooltip')));
  await browser.click('#outcomes li:last-child .outcome-row');
  check('a template is chosen by its bar', await browser.until(() => document.querySelector('#outcomes li:last-child .outcome-row').getAttribute('aria-pressed') === 'true'));
  check('circuits have their place', (await browser.run(textOf, '#circuit-list')).length > 0);
}

async function looks() {
  for (const colours of ['light', 'dark']) {
    await browser.media({ 'prefers-color-scheme': colours, 'prefers-reduced-motion': 'reduce' });
    for (const [name, [width, height]] of Object.entries(SIZES)) {
      await browser.size(width, height);
      check(`${colours}, ${name}: nothing scrolls sideways`, !(await browser.run(scrollsSideways)), await browser.run(() => document.documentElement.scrollWidth));
      const low = await browser.run(lowContrasts, LEAST_CONTRAST);
      check(`${colours}, ${name}: text stands out`, low.length === 0, low);
      await browser.run(() => document.querySelector('.card-title').click());
      await browser.until(shows, '#details');
      check(`${colours}, ${name}: nor with the details open`, !(await browser.run(scrollsSideways)));
      const lowDetails = await browser.run(lowContrasts, LEAST_CONTRAST);
      check(`${colours}, ${name}: text of the details stands out`, lowDetails.length === 0, lowDetails);
      await browser.press(KEYS.Escape);
    }
  }
  check('nothing moves where motion is not wanted', await browser.run(() => document.getAnimations().length === 0));
  await browser.size(...SIZES.wide);
  await browser.click('input[value=light]');
  check('the switch outweighs the system', await browser.run(() => getComputedStyle(document.body).backgroundColor === 'rgb(245, 246, 248)'));
  await browser.send('/refresh');
  check('the choice is kept', await browser.until(() => document.documentElement.dataset.theme === 'light' && document.querySelector('input[value=light]').checked));
  check('a reload needs no token again', await browser.until(says, '#connection', 'Live'));
}

// A task on a host, which is a process with a state directory of its own here.
async function onHost(server) {
  const id = await server.zsh('echo far away; read "?Name? " name; echo hello $name; sleep 306', { host: 'build1', pty: true, yield_after: 5 });
  check('a task on a host appears', await browser.until(shows, card(id)), id);
  check('it tells its host', await browser.until(says, `${card(id)} .card-meta`, 'on build1'), await browser.run(textOf, card(id)));
  check('it waits among what needs attention', await browser.until(says, `.group-attention ${card(id)}`, 'Name?'));
  await browser.click(`${card(id)} .card-title`);
  check('the details show its output', await browser.until(says, '.output', 'far away'));
  check('and its host', await browser.run(says, '.facts', 'build1'));
  await browser.until(shows, '#details .input input');
  await browser.click('#details .input input');
  await browser.type('Ada');
  await browser.press(KEYS.Enter);
  check('what is typed arrives there', await browser.until(says, '.output', 'hello Ada'), await browser.run(textOf, '#details'));
  await browser.click('.buttons .danger');
  await browser.until(() => document.querySelector('#confirm').open);
  await browser.click('#confirm-yes');
  check('it is killed there', await browser.until(says, `.group-ended ${card(id)}`, 'Killed'), await browser.run(textOf, '#toast'));
  check('no process of it is left', await eventually(() => running('sleep', '306').length === 0));
  await browser.press(KEYS.Escape);
}

// A server that hangs, and goes on again.
async function hung() {
  const pid = Number(/pid (\d+)/.exec(await browser.run(textOf, '#server'))[1]);
  process.kill(pid, 'SIGSTOP');
  check('a server that hangs counts as lost', await browser.until(says, '#connection', 'Connection lost'));
  process.kill(pid, 'SIGCONT');
  check('the page comes back with it', await browser.until(says, '#connection', 'Live'));
  check('nothing is stale then', !(await browser.run(shows, '#stale')));
}

async function lost(server) {
  server.process.stdin.end();
  check('a lost connection is said', await browser.until(says, '#connection', 'Connection lost'));
  check('stale data is shown as stale', await browser.until(says, '#stale', 'What you see is of'));
  check('nothing can be killed then', await browser.run(() => [...document.querySelectorAll('.card .button')].every((button) => button.hidden || button.getAttribute('aria-disabled') === 'true')));
}

let browser;
try {
  const settings = path.join(scratch, 'served.yaml');
  const far = path.join(scratch, 'far');
  fs.mkdirSync(far);
  const carrier = `[env, HOME=${far}, ZSH_TOOL_STATE_DIR=${path.join(far, 'state')}]`;
  const host = `{command: ${carrier}, install: never, binary_directory: ${path.dirname(path.resolve(binary))}}`;
  fs.writeFileSync(settings, `http: 127.0.0.1:0\nhosts: {build1: ${host}}\n`);
  const server = await startServer({ ZSH_TOOL_CONFIG: settings });
  const other = await startServer();
  browser = await startBrowser();
  await browser.devtools('Page.addScriptToEvaluateOnNewDocument', { source: 'globalThis.alerts = 0; globalThis.alert = () => { globalThis.alerts += 1; };' });
  await browser.size(...SIZES.wide);
  await withoutToken(server);
  const tasks = await list(server, other);
  await markup(tasks);
  await keyboard(tasks);
  await input(tasks);
  await detachedTask(tasks.detached);
  await flood(server);
  await leftovers(server);
  await onHost(server);
  await run();
  await history(server);
  await looks();
  const complaints = await browser.complaints();
  check('the console is clean', complaints.length === 0, complaints);
  await hung();
  await lost(server);
} catch (error) {
  check('the session goes through', false, String(error?.stack ?? error));
}
await browser?.close();
for (const server of started) server.stdin.end();
check('nothing is left after the close', await eventually(() => running().length === 0), running());
finish();
