// The details of the selected session: its facts, its live output, its progress, and earlier runs of
// the same command.

/** Lines of output that the page keeps; `zsh-tool log` prints all. */
const LINES_KEPT = 3000;
/** The minimum time between two drawings of output, in milliseconds … */
const DRAW_EVERY = 100;
/** … and the maximum number of characters kept in between: more than `LINES_KEPT` usually need. */
const MAX_PENDING = 1024 * 1024;
/** A longer line continues in another element, so that appending to it stays cheap. */
const PIECE_CHARS = 16 * 1024;
/** Characters of one line of a run's log that are shown. */
const LOG_CHARS = 2000;
/** How far from its end the output may be scrolled while it still follows, in pixels. */
const NEAR_END = 24;
/** How often the counts are requested, in milliseconds. */
const COUNTS_EVERY = 2000;
/** The longest wait for a judge's answer that the server allows, in milliseconds. */
const CHECK_WAIT = 5000;

const details = { id: null, parts: null, stream: null, complete: false, lastLine: null, lastStatus: null, follow: true, followedTo: 0, timer: null, opener: null, pending: [], pendingChars: 0, drawing: null };
const narrow = matchMedia('(max-width: 1080px)');

function startDetails() {
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.defaultPrevented || byId('confirm').open) return;
    if (!hideTooltips() && details.id) closeDetails();
  });
  narrow.addEventListener('change', keepFocusInside);
}

function select(id, opener) {
  if (details.id === id) return focusDetails();
  stopDetails();
  page.selected = id;
  Object.assign(details, { id, opener, complete: false, follow: true, followedTo: 0, lastLine: null, lastStatus: null });
  details.parts = makeDetails(id);
  byId('details').replaceChildren(...details.parts.sections);
  byId('details').scrollTop = 0;
  setHidden(byId('details'), false);
  byId('main').classList.add('with-details');
  showSelection();
  showDetails();
  openStream(id);
  askCounts();
  keepFocusInside();
  focusDetails();
  drawPlots();
}

function focusDetails() {
  details.parts?.title.focus({ preventScroll: true });
}

function closeDetails() {
  const opener = details.opener;
  stopDetails();
  page.selected = null;
  setHidden(byId('details'), true);
  byId('details').replaceChildren();
  byId('main').classList.remove('with-details');
  showSelection();
  keepFocusInside();
  drawPlots();
  if (opener?.isConnected) opener.focus();
  else byId('sessions').focus();
}

function stopDetails() {
  details.stream?.close();
  clearTimeout(details.timer);
  clearTimeout(details.drawing);
  Object.assign(details, { id: null, parts: null, stream: null, timer: null, pending: [], pendingChars: 0, drawing: null });
}

/** In a narrow window the details cover the page, so the rest of it must not take the focus. */
function keepFocusInside() {
  const covered = narrow.matches && details.id !== null;
  document.body.classList.toggle('covered', covered);
  for (const node of document.querySelectorAll('.skip, .top, .overview')) node.inert = covered;
}

function makeDetails(id) {
  const parts = { badge: badge(), estimate: estimateBar(), input: inputField(id), buttons: makeButtons(id), output: makeOutput(id) };
  parts.title = element('h2', { id: 'details-title', class: 'details-title', 'data-kind': page.byId.get(id)?.kind, tabindex: '-1' });
  parts.description = element('p', { class: 'card-description' });
  parts.attention = element('p', { class: 'attention' });
  parts.evidence = element('p', { class: 'card-facts' });
  parts.facts = element('dl', { class: 'facts' });
  parts.counts = element('dl', { class: 'facts' });
  parts.answer = element('div', { class: 'answer', hidden: true });
  parts.past = element('section', { class: 'details-section', hidden: true });
  parts.changes = makeChanges(id);
  const close = element('button', { type: 'button', class: 'icon-button', 'aria-label': 'Close the details', title: 'Close (Esc)', onclick: closeDetails }, icon('close'));
  const top = element('div', { class: 'details-top' }, parts.badge, close);
  // While a task runs, only the attention text above the buttons appears and disappears, so that they stay under the pointer.
  const head = element('div', { class: 'details-head' }, top, parts.title, parts.description, parts.attention, parts.input.root, parts.buttons.root, parts.answer, parts.estimate.root, parts.evidence);
  parts.sections = [head, parts.output.root, section('Facts', parts.facts), section('Progress', parts.counts), parts.changes.root, parts.past];
  return parts;
}

function section(title, ...children) {
  return element('section', { class: 'details-section' }, element('h3', { text: title }), ...children);
}

function makeButtons(id) {
  const end = element('button', { type: 'button', class: 'button danger', onclick: () => askToEnd(id) });
  const check = element('button', { type: 'button', class: 'button', text: 'Check status', onclick: () => checkStatus(id) });
  const why = element('p', { class: 'why-not', hidden: true });
  return { root: element('div', { class: 'buttons' }, end, check, why), end, check, why };
}

function makeOutput(id) {
  const title = isRun(page.byId.get(id)) ? 'Log' : 'Output';
  const text = element('pre', { class: 'output', tabindex: '0', role: 'region', 'aria-label': title, onscroll: noticeScroll });
  const follow = element('button', { type: 'button', class: 'button small', 'aria-pressed': 'true', text: 'Follow', onclick: toggleFollow });
  const note = element('span', { class: 'aside' });
  const head = element('div', { class: 'output-head' }, element('h3', { text: title }), note, follow);
  return { root: element('section', { class: 'details-section' }, head, text), text, follow, note };
}

/** Redraws everything except the output. */
function showDetails() {
  const { id, parts } = details;
  if (!parts) return;
  const session = page.byId.get(id);
  if (!session) return showGone(parts);
  updateBadge(parts.badge, badgeOf(session));
  setText(parts.title, session.title);
  setOptional(parts.description, session.description);
  setOptional(parts.attention, attentionText(session));
  updateInput(parts.input, session, parts.title);
  showButtons(parts.buttons, session);
  showChanges(parts.changes, session);
  showPast(parts.past, session);
  tickDetails();
}

function showGone(parts) {
  setOptional(parts.attention, 'The server no longer lists this session.');
  setHidden(parts.input.root, true);
  setHidden(parts.buttons.root, true);
}

function tickDetails() {
  const { id, parts } = details;
  const session = page.byId.get(id);
  if (!parts || !session) return;
  const running = isRunning(session);
  updateEstimate(parts.estimate, running ? estimateOf(session, elapsedOf(session)) : null);
  setOptional(parts.evidence, running ? factWords(session).join('  ·  ') : '');
  showFacts(parts.facts, sessionFacts(session));
}

function showButtons(buttons, session) {
  const reason = whyNotEnded(session);
  setHidden(buttons.root, !lives(session));
  setHidden(buttons.check, !isRunning(session));
  setText(buttons.end, isRun(session) ? 'Stop the run' : isRunning(session) ? 'Kill the task' : 'Kill what is left');
  setAttribute(buttons.end, 'aria-disabled', reason ? 'true' : null);
  setAttribute(buttons.check, 'aria-disabled', page.live && !page.checking.has(session.id) ? null : 'true');
  setOptional(buttons.why, reason);
}

function sessionFacts(session) {
  const ended = !isRunning(session);
  return [
    ['State', stateWords(session.state)],
    ...(session.run ? runFacts(session.run) : []),
    ['Directory', session.directory],
    ['Started', dateAndTime(session.startedAt)],
    ended ? ['Took', duration(session.durationMs ?? session.elapsedMs)] : ['Elapsed', wholeSeconds(elapsedOf(session))],
    ended ? null : ['Silent', silentOf(session) < SECOND ? 'no' : `for ${wholeSeconds(silentOf(session))}`],
    ...(session.usage ? usageFacts(session.usage) : []),
    ['Exit code', session.exitCode],
    [isRun(session) ? 'Runner' : 'Process', session.pid],
    ['Input and output', isRun(session) ? null : session.pty ? 'terminal (PTY)' : 'pipes'],
    ['Sandbox', session.sandbox],
    ['Left running', leftWords(session)],
    ...(session.detached ? detachedFacts(session.detached) : []),
    ['Host', session.host],
    ['Server', isRun(session) || session.host ? null : serverWords(session.server)],
    ['Id', session.id],
  ].filter((fact) => fact && fact[1] !== null && fact[1] !== undefined && fact[1] !== '');
}

function usageFacts({ cpuMs, memoryBytes, peakBytes, peakAtLeast, processes }) {
  const peak = peakBytes ? `${peakAtLeast ? '≥ ' : ''}${bytes(peakBytes)} at the peak` : null;
  return [
    ['CPU time', duration(cpuMs)],
    ['Memory', [memoryBytes ? `${bytes(memoryBytes)} now` : null, peak].filter(Boolean).join(', ')],
    ['Processes', processes],
  ];
}

function runFacts(run) {
  return [
    ['Phase', `${run.phase ?? '–'}, iteration ${run.iteration} of ${run.maxIterations}`],
    ['Worker', run.executor],
    ['Auditor', run.auditor],
    ['Cost', run.cost],
    ['Checks', (run.checks ?? []).join('; ')],
    ['Branch', run.branch],
    ['Reason', run.reason],
    ['Feedback', run.feedback],
  ];
}

function detachedFacts({ client, project, until }) {
  return [
    ['Detached by', client || 'a client without a name'],
    ['Runs until', until ? dateAndTime(until) : 'its end (no limit)'],
    ['Project', project],
  ];
}

function showFacts(node, facts) {
  const names = facts.map(([name]) => name).join('\n');
  if (node.dataset.names !== names) {
    node.dataset.names = names;
    node.replaceChildren(...facts.map(([name]) => element('div', {}, element('dt', { text: name }), element('dd'))));
  }
  facts.forEach(([, value], at) => setText(node.children[at].lastElementChild, String(value)));
}

// Output

function openStream(id) {
  const stream = new EventSource(`/api/sessions/${encodeURIComponent(id)}/events`);
  const mine = (act) => (event) => details.stream === stream && act(event);
  details.stream = stream;
  setText(details.parts.output.note, 'waiting for output');
  stream.addEventListener('output', mine((event) => takeOutput(JSON.parse(event.data).text)));
  stream.addEventListener('log', mine((event) => takeLog(JSON.parse(event.data))));
  stream.addEventListener('session', mine((event) => takeSession(JSON.parse(event.data))));
  stream.addEventListener('end', mine(endStream));
  stream.addEventListener('open', mine(() => setText(details.parts.output.note, '')));
  stream.addEventListener('error', mine(() => setText(details.parts.output.note, 'interrupted; continues when the server answers')));
}

function endStream() {
  details.complete = true;
  details.stream.close();
  drawOutput();
  setText(details.parts.output.note, details.lastLine ? 'complete' : 'no output');
}

/** Shows a line of a run's log; of heartbeats, only those with a new status. */
function takeLog(line) {
  const status = line.type === 'heartbeat' ? line.data?.status : null;
  const isNews = !status || status !== details.lastStatus;
  details.lastStatus = status;
  if (isNews) takeOutput(`${logLine(line)}\n`);
}

/** Keeps text until it is drawn; of a flood, only the end that would stay visible. */
function takeOutput(text) {
  details.pending.push(text);
  details.pendingChars += text.length;
  while (details.pendingChars > MAX_PENDING && details.pending.length > 1) details.pendingChars -= details.pending.shift().length;
  details.drawing ??= setTimeout(drawOutput, DRAW_EVERY);
}

/** Adds the pending text, in which the server has already drawn the lines. */
function drawOutput() {
  clearTimeout(details.drawing);
  const text = details.pending.join('');
  Object.assign(details, { drawing: null, pending: [], pendingChars: 0 });
  if (text === '') return;
  const pre = details.parts.output.text;
  // The event of scrolling back comes with the next frame, which may be after this text.
  if (pre.scrollTop < details.followedTo) noticeScroll();
  const [first, ...others] = plainText(text).split('\n');
  if (!details.lastLine || details.lastLine.length > PIECE_CHARS) startLine(pre);
  details.lastLine.data += first;
  for (const line of others.slice(-LINES_KEPT)) {
    details.lastLine.data += '\n';
    startLine(pre).data = line;
  }
  while (pre.childNodes.length > LINES_KEPT) pre.firstChild.remove();
  if (details.follow) scrollToEnd(pre);
}

function startLine(pre) {
  details.lastLine = document.createTextNode('');
  pre.append(details.lastLine);
  return details.lastLine;
}

function noticeScroll() {
  const pre = details.parts?.output.text;
  if (pre) setFollow(pre.scrollHeight - pre.scrollTop - pre.clientHeight < NEAR_END);
}

function toggleFollow() {
  setFollow(!details.follow);
  const pre = details.parts.output.text;
  if (details.follow) scrollToEnd(pre);
}

function scrollToEnd(pre) {
  pre.scrollTop = pre.scrollHeight;
  details.followedTo = pre.scrollTop;
}

function setFollow(follow) {
  details.follow = follow;
  setAttribute(details.parts.output.follow, 'aria-pressed', String(follow));
}

/** One line of a run's log as text. */
function logLine(line) {
  const agent = [line.role, line.iteration].filter((part) => part !== undefined && part !== null).join(' ');
  return `${timeOfDay(line.ts)}  ${agent ? `${agent}  ` : ''}${logWords(line)}`;
}

/** What the lines say that are the run's own words. */
const RUN_WORDS = {
  check: ({ command, passed, ended, output }) => [`${command}: ${passed ? 'passed' : `failed, ${ended}`}`, output].filter(Boolean).join('\n'),
  changes: ({ summary, files }) => `${summary}: ${(files ?? []).join(', ')}`,
  shortfall: ({ text, advice }) => `the worker ${text}: ${advice}`,
  outage: ({ error, message, tries_again_in: pause }) => `${error}: ${message}; trying again in ${Math.round(pause)} s`,
};

function logWords({ type, data }) {
  if (data === null || data === undefined) return `${stateWords(type)}: too long to be shown`;
  if (type === 'state_change') return `${data.from ? stateWords(data.from) : 'Start'} → ${stateWords(data.to)}`;
  if (type === 'heartbeat') return [data.status, ...(data.evidence ?? [])].filter(Boolean).join(' · ');
  const words = RUN_WORDS[type]?.(data) ?? (recordWords(data) || JSON.stringify(data));
  const shown = words.length > LOG_CHARS ? `${words.slice(0, LOG_CHARS)} …` : words;
  return type === 'activity' ? shown : `${stateWords(type)}: ${shown}`;
}

/** The text in an agent's record, if its shape is a usual one; otherwise empty. */
function recordWords(data) {
  if (data === null || typeof data !== 'object') return String(data ?? '');
  const values = Object.values(data);
  if (values.length === 1 && typeof values[0] === 'string') return values[0];
  return [data.message?.content ?? data.item ?? data].flat().map(blockWords).filter(Boolean).join('\n');
}

function blockWords(block) {
  if (block === null || typeof block !== 'object') return String(block ?? '');
  const text = [block.text, block.thinking, block.result, block.command, block.content, block.reason].find((value) => typeof value === 'string');
  if (text !== undefined) return text;
  if (block.name) return `${block.name} ${Object.values(block.input ?? {}).find((value) => typeof value === 'string') ?? ''}`;
  return Array.isArray(block.content) ? block.content.map((inner) => inner?.text ?? '').join('\n') : '';
}

// Counts

async function askCounts() {
  const id = details.id;
  const answer = await get(`/api/autonomous/progress/${encodeURIComponent(id)}`).catch(() => null);
  if (details.id !== id) return;
  if (answer) showFacts(details.parts.counts, countFacts(answer));
  const session = page.byId.get(id);
  if (session && isRunning(session)) details.timer = setTimeout(askCounts, COUNTS_EVERY);
}

function countFacts({ alive, stuck, progress, currentPhase, iteration }) {
  const change = progress?.lastChange;
  const kind = typeof change === 'object' && change !== null ? change.type : change;
  const over = currentPhase === 'ended';
  return [
    ['Signs of life', counted(progress?.heartbeats ?? 0, 'heartbeat')],
    ['New progress', counted(progress?.stateChanges ?? 0, 'change')],
    ['Last change', kind ? `${typeof kind === 'string' ? stateWords(kind) : 'yes'}, ${ago(progress.lastChangeAgo ?? 0)}` : 'none yet'],
    ['Alive', over ? null : alive ? 'yes' : 'no sign of life lately'],
    ['Stuck', over ? null : stuck ? 'yes' : 'no'],
    ['Phase', currentPhase ? sentence(String(currentPhase)) : null],
    ['Iteration', iteration],
  ].filter((fact) => fact[1] !== null && fact[1] !== undefined);
}

// The judge

async function checkStatus(id) {
  if (details.parts.buttons.check.getAttribute('aria-disabled') === 'true') return;
  page.checking.add(id);
  showAnswer(id, 'The judge is checking it …');
  showDetails();
  try {
    const { checkId } = await post('/api/autonomous/check-status', { sessionId: id });
    showAnswer(id, ...answerWords(await checkResult(checkId)));
  } catch (error) {
    showAnswer(id, 'The check failed', error.message);
  }
  page.checking.delete(id);
  if (details.id === id) showDetails();
}

async function checkResult(checkId) {
  for (;;) {
    const state = await get(`/api/autonomous/check-status/${encodeURIComponent(checkId)}?wait_ms=${CHECK_WAIT}`);
    if (state.state !== 'pending') return state;
  }
}

function answerWords({ result, error }) {
  if (!result) return ['The check failed', error ?? 'The judge gave no answer.'];
  return [`The judge says: ${findingWords(result.status)}`, result.reason];
}

function showAnswer(id, title, text) {
  if (details.id !== id) return;
  const node = details.parts.answer;
  node.replaceChildren(element('p', { class: 'answer-title', text: title }));
  if (text) node.append(element('p', { text }));
  setHidden(node, false);
  announce(text ? `${title}. ${text}` : title);
}

// What a run has changed

function makeChanges(id) {
  const choices = element('div', { class: 'buttons' });
  const text = element('pre', { class: 'output diff', tabindex: '0', role: 'region', 'aria-label': 'Changes', hidden: true });
  const root = element('section', { class: 'details-section', hidden: true }, element('h3', { text: 'Changes' }), choices, text);
  return { root, choices, text, id };
}

function showChanges(changes, session) {
  const iterations = session.run?.changedIterations ?? [];
  setHidden(changes.root, iterations.length === 0);
  const drawn = iterations.join(' ');
  if (changes.root.dataset.drawn === drawn) return;
  changes.root.dataset.drawn = drawn;
  const button = (text, query) => element('button', { type: 'button', class: 'button small', text, onclick: () => askChanges(changes, query) });
  const each = iterations.map((iteration) => button(`Iteration ${iteration}`, `?iteration=${iteration}`));
  changes.choices.replaceChildren(...each, ...(each.length > 1 ? [button('All', '')] : []));
}

async function askChanges(changes, query) {
  let lines;
  try {
    const { diff, cut } = await get(`/api/sessions/${encodeURIComponent(changes.id)}/diff${query}`);
    lines = [...diff.split('\n'), ...(cut ? ['… the rest is too long for this page'] : [])];
  } catch (error) {
    lines = [error.message];
  }
  changes.text.replaceChildren(...lines.map((line) => element('span', { class: kindOfChange(line), text: `${line}\n` })));
  setHidden(changes.text, false);
}

function kindOfChange(line) {
  if (/^(\+\+\+|---|diff |index |@@)/.test(line)) return 'aside';
  return { '+': 'added', '-': 'removed' }[line[0]] ?? '';
}

// Earlier runs of the same command

function showPast(node, session) {
  const template = isRun(session) ? null : templateOf(session.title);
  setHidden(node, !template);
  if (!template || node.dataset.drawn === `${template.template} ${template.runs.length}`) return;
  node.dataset.drawn = `${template.template} ${template.runs.length}`;
  const plot = element('div', {});
  node.replaceChildren(element('h3', { text: 'Runs of the same command' }), plot);
  requestAnimationFrame(() => drawDurations(plot, template, { compact: true }));
}

/** The longest template that matches the command, which is the most specific one. */
function templateOf(command) {
  const fitting = page.history.templates.filter(({ template }) => fitsTemplate(template, command));
  return fitting.toSorted((one, other) => other.template.length - one.template.length)[0] ?? null;
}
