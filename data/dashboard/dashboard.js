// The page's state, its connection to the server, and its start.

/** How often running clocks are drawn, in milliseconds. */
const TICK = 1000;
/** How often the history is requested if no session ends, in milliseconds. */
const HISTORY_EVERY = 30 * SECOND;
/** Pauses before further attempts to connect, in milliseconds; the last one repeats. */
const ATTEMPTS = [1, 2, 4, 8].map((seconds) => seconds * SECOND);
/** After this many milliseconds without a message, the page checks that the server answers … */
const QUIET = 6 * SECOND;
/** … within `alive` milliseconds; an ordinary request or a command may take longer. */
const ANSWER_WITHIN = { alive: 6 * SECOND, question: 12 * SECOND, order: 60 * SECOND };
/** The statuses of responses to a request without a valid token. */
const UNAUTHORIZED = [401, 403];
const TOAST_STAYS = 8 * SECOND;

const page = {
  sessions: [],
  byId: new Map(),
  known: false,
  /** Whether the connection is open, so that the shown data is current. */
  live: false,
  selected: null,
  /** The server's clock, in Unix seconds, and this page's clock at the same moment. */
  now: Date.now() / SECOND,
  takenAt: performance.now(),
  /** When the connection was lost. */
  staleSince: performance.now(),
  history: { templates: [], circuits: [], known: false },
  checking: new Set(),
  /** Whether a check of a quiet server is running. */
  asking: false,
  stream: null,
  /** Attempts to connect since the connection was lost, and the timer of the next. */
  attempts: 0,
  retry: null,
  toastTimer: null,
  /** Milliseconds since the shown data arrived; stale data does not age. */
  age(takenAt) {
    return (this.live ? performance.now() : this.staleSince) - takenAt;
  },
  nowMs() {
    return this.now * SECOND + this.age(this.takenAt);
  },
};

const elapsedOf = (session) => session.elapsedMs + (isRunning(session) ? page.age(session.takenAt) : 0);
const silentOf = (session) => (session.silentMs ?? 0) + (isRunning(session) ? page.age(session.takenAt) : 0);

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options) {
  const response = await fetch(path, { credentials: 'same-origin', cache: 'no-store', ...options });
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, answer?.error ?? `The server answered ${response.status}.`);
  return answer;
}

const get = (path, within = ANSWER_WITHIN.question) => ask(path, { signal: AbortSignal.timeout(within) });

function post(path, body) {
  const headers = { 'Content-Type': 'application/json' };
  return ask(path, { method: 'POST', headers, body: JSON.stringify(body), signal: AbortSignal.timeout(ANSWER_WITHIN.order) });
}

// The token

/** Takes the token out of the address, so that no history and no screenshot keeps it. */
function tokenFromAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token) history.replaceState(null, '', location.pathname);
  return token;
}

/** The token in pasted text: a link, its fragment, or the token itself. */
const tokenIn = (text) => /token=([^&\s]+)/.exec(text)?.[1] ?? text.trim();

async function start() {
  startTheme();
  startConfirm();
  startList();
  startDetails();
  startPlots();
  byId('gate-form').addEventListener('submit', (event) => {
    event.preventDefault();
    enter(tokenIn(byId('gate-token').value));
  });
  addEventListener('hashchange', () => {
    const token = tokenFromAddress();
    if (token) enter(token);
  });
  setInterval(tick, TICK);
  setInterval(askHistory, HISTORY_EVERY);
  await enter(tokenFromAddress());
}

/** Exchanges the token for a cookie; without a token, tries the cookie of an earlier visit. */
async function enter(token) {
  try {
    if (token) await post('/api/token', { token });
    await get('/api/sessions');
  } catch (error) {
    return UNAUTHORIZED.includes(error.status) ? showGate(unauthorizedReason(token)) : showLost();
  }
  openPage();
}

function unauthorizedReason(token) {
  if (token) return 'That token is not valid here. A server makes a new one each time it starts.';
  if (page.known) return 'The previous server is gone. Another server answers, which needs a different token.';
  return 'This page shows commands and their output, so it opens only with its key.';
}

function openPage() {
  byId('gate-token').value = '';
  setHidden(byId('gate'), true);
  setHidden(byId('main'), false);
  connect();
  askHistory();
}

function showGate(reason) {
  page.stream?.close();
  if (details.id) closeDetails();
  setHidden(byId('main'), true);
  setHidden(byId('stale'), true);
  setHidden(byId('gate'), false);
  setText(byId('gate-reason'), reason);
  showConnection('closed', 'Not connected');
  byId('gate-title').focus();
}

// The connection

function connect() {
  page.stream?.close();
  const stream = new EventSource('/api/events');
  page.stream = stream;
  stream.addEventListener('sessions', (event) => page.stream === stream && takeSessions(JSON.parse(event.data)));
  stream.addEventListener('error', () => page.stream === stream && showLost());
}

/** Reports the lost connection, and tries again, since EventSource gives up after an error response. */
function showLost() {
  if (page.live) page.staleSince = performance.now();
  page.live = false;
  page.stream?.close();
  showConnection('lost', 'Connection lost');
  setHidden(byId('main'), !page.known);
  setOptional(byId('stale'), page.known ? `The server does not answer. What you see is of ${timeOfDay(page.nowMs() / SECOND)}; trying again …` : 'The server does not answer; trying again …');
  document.body.classList.add('is-stale');
  if (page.known) showAll();
  const wait = ATTEMPTS[Math.min(page.attempts, ATTEMPTS.length - 1)];
  page.attempts += 1;
  clearTimeout(page.retry);
  page.retry = setTimeout(() => enter(null), wait);
}

/** Checks a quiet server, since a server that hangs keeps its connection open. */
async function askWhenQuiet() {
  if (page.asking || performance.now() - page.takenAt < QUIET) return;
  page.asking = true;
  try {
    const answer = await get('/api/sessions', ANSWER_WITHIN.alive);
    if (page.live) takeSessions(answer);
  } catch {
    showLost();
  }
  page.asking = false;
}

function showConnection(state, text) {
  setAttribute(byId('connection'), 'data-state', state);
  setText(byId('connection-text'), text);
}

/** Adopts a list of sessions from the server, and draws it. */
function takeSessions({ now, server, sessions }) {
  const before = page.known ? page.byId : null;
  const again = !page.live && page.known;
  const takenAt = performance.now();
  for (const session of sessions) session.takenAt = takenAt;
  Object.assign(page, { now, sessions, known: true, live: true, attempts: 0, takenAt });
  page.byId = new Map(sessions.map((session) => [session.id, session]));
  showConnection('live', 'Live');
  setHidden(byId('stale'), true);
  document.body.classList.remove('is-stale');
  setText(byId('server'), [server.version, `server ${server.instance}`, server.pid ? `pid ${server.pid}` : ''].filter(Boolean).join('  ·  '));
  setText(byId('sandbox-text'), server.sandbox.text);
  setOptional(byId('sandbox-problem'), server.sandbox.problem ?? '');
  if (before) announceChanges(before);
  if (again && details.id && !details.complete && details.stream.readyState === EventSource.CLOSED) reopenDetails();
  showAll();
}

/** Reopens the stream of the details, which has failed for good, and reads the output again. */
function reopenDetails() {
  const { id, opener } = details;
  const focused = document.activeElement;
  stopDetails();
  select(id, opener);
  if (focused?.isConnected) focused.focus({ preventScroll: true });
}

/** Adopts one session's newer state, from the stream of its details, which leaves out the tail. */
function takeSession(newer) {
  const at = page.sessions.findIndex(({ id }) => id === newer.id);
  if (at < 0) return;
  const known = page.sessions[at];
  const session = { ...newer, tail: known.tail, takenAt: performance.now() };
  const before = new Map(page.byId);
  page.sessions[at] = session;
  page.byId.set(session.id, session);
  announceChanges(before);
  showAll();
}

function showAll() {
  showList();
  showDetails();
  showTitle();
}

function tick() {
  if (!page.live) return;
  tickList();
  tickDetails();
  tickCircuits();
  askWhenQuiet();
}

async function askHistory() {
  if (byId('main').hidden) return;
  const answer = await get('/api/history').catch(() => null);
  if (!answer) return;
  page.history = { templates: (answer.templates ?? []).filter(({ runs }) => runs.length > 0), circuits: answer.circuits ?? [], known: true };
  drawPlots();
  drawCircuits();
  showDetails();
}

// Announcements

function showTitle() {
  const attention = page.sessions.filter(needsAttention).length;
  const running = page.sessions.filter(isRunning).length;
  const words = [attention ? `${attention} need${attention === 1 ? 's' : ''} attention` : '', running ? `${running} running` : ''].filter(Boolean);
  document.title = [...words, 'zsh-tool'].join(' · ');
}

/** Announces sessions that moved to another group to screen readers, and requests the history when one ended. */
function announceChanges(before) {
  const moved = page.sessions.filter((session) => groupOf(session) !== groupBefore(session, before));
  const words = moved.filter(({ id }) => before.has(id)).map((session) => `${firstLine(session.title)}: ${badgeOf(session).word}`);
  if (words.length > 0) announce(words.join('. '));
  if (moved.some((session) => groupOf(session) === 'ended')) askHistory();
}

function groupBefore({ id }, before) {
  return before.has(id) ? groupOf(before.get(id)) : null;
}

function announce(text) {
  setText(byId('announcer'), text);
}

function toast(text, tone) {
  const node = byId('toast');
  setAttribute(node, 'data-tone', tone);
  setText(node, text);
  setHidden(node, false);
  clearTimeout(page.toastTimer);
  page.toastTimer = setTimeout(() => setHidden(node, true), TOAST_STAYS);
}

// Ending sessions

function startConfirm() {
  byId('confirm-no').addEventListener('click', () => byId('confirm').close('no'));
  byId('confirm-yes').addEventListener('click', () => byId('confirm').close('yes'));
  byId('confirm').addEventListener('close', () => {
    if (byId('confirm').returnValue === 'yes') endSession(byId('confirm').dataset.id);
  });
}

/** Moves the focus to the session's title, since the focused button disappears when the session ends. */
function keepFocusAt(id) {
  if (details.id === id) return focusDetails();
  list.cards.get(id)?.title.focus({ preventScroll: true });
}

function askToEnd(id) {
  const session = page.byId.get(id);
  if (!session || !lives(session)) return;
  const reason = whyNotEnded(session);
  if (reason) return toast(reason, 'bad');
  const { title, text, yes } = endWords(session);
  setText(byId('confirm-title'), title);
  setText(byId('confirm-command'), session.title);
  setText(byId('confirm-text'), text);
  setText(byId('confirm-yes'), yes);
  const dialog = byId('confirm');
  dialog.dataset.id = id;
  dialog.returnValue = '';
  dialog.showModal();
  byId('confirm-no').focus();
}

function endWords(session) {
  if (isRun(session)) return { title: 'Stop this run?', text: 'This ends its agent. The run is then over and cannot be resumed.', yes: 'Stop the run' };
  if (isRunning(session)) return { title: 'Kill this task?', text: 'This kills the command and every process that it has started. Its output so far is kept.', yes: 'Kill the task' };
  return { title: 'Kill what is left of this task?', text: `The command has ended. This kills the processes that it left running: ${leftWords(session)}.`, yes: 'Kill the rest' };
}

async function endSession(id) {
  const session = page.byId.get(id);
  if (!session) return;
  const name = firstLine(session.title);
  keepFocusAt(id);
  try {
    if (isRun(session)) await post('/api/autonomous/stop', { sessionId: id });
    else await post(`/api/tasks/${encodeURIComponent(id)}/kill`, {});
    toast(isRun(session) ? `Stopped: ${name}` : `Killed: ${name}`, 'good');
  } catch (error) {
    toast(`Could not end ${name}: ${error.message}`, 'bad');
  }
}

// Colours

function startTheme() {
  const chosen = document.documentElement.dataset.theme ?? 'system';
  for (const choice of document.querySelectorAll('input[name=theme]')) {
    choice.checked = choice.value === chosen;
    choice.addEventListener('change', () => chooseTheme(choice.value));
  }
}

function chooseTheme(theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem('zsh-tool.theme', theme);
  } catch {
    // If storage is disabled, the choice lasts until the page is closed.
  }
}

start();
