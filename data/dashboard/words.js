// Words and figures: pure functions from the server's values to text for people.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const two = (number) => String(number).padStart(2, '0');

/** A duration in milliseconds as text: `320 ms`, `4.2 s`, `3 min 05 s`, `1 h 02 min`. */
function duration(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return '–';
  if (ms < SECOND) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 9.95 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  return wholeSeconds(ms);
}

/** As `duration`, without fractions, for running clocks. */
function wholeSeconds(ms) {
  const seconds = Math.max(0, Math.round(ms / SECOND));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** As `duration`, without zero parts, for axes and estimates. */
function shortDuration(ms) {
  return ms >= MINUTE ? wholeSeconds(ms).replace(/ 00 s$| 00 min$| 0 h$/, '') : duration(ms).replace('.0 s', ' s');
}

/** A number of bytes as text: `512 KB`, `3.1 GB`. */
function bytes(count) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  let value = count;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

function ago(ms) {
  return ms < 5 * SECOND ? 'just now' : `${agoUnit(ms)} ago`;
}

function agoUnit(ms) {
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

/** A point in time, in Unix seconds, in this browser's locale. */
function dateAndTime(unixSeconds) {
  return new Date(unixSeconds * SECOND).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
}

function timeOfDay(unixSeconds) {
  return new Date(unixSeconds * SECOND).toLocaleTimeString(undefined, { hour12: false });
}

const counted = (number, one, many = `${one}s`) => `${number.toLocaleString('en')} ${number === 1 ? one : many}`;

const percent = (part) => `${Math.round(part * 100)} %`;

/** `WORKER_EXECUTING` as a person would write it. */
const stateWords = (state) => sentence(String(state).toLowerCase().replaceAll('_', ' '));
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const firstLine = (text) => String(text).split('\n', 1)[0];

const RUN_ENDS = ['COMPLETED', 'REJECTED', 'FAILED', 'INTERRUPTED'];

const isRun = (session) => session.kind === 'run';

function isRunning(session) {
  if (!isRun(session)) return session.state === 'running';
  return !RUN_ENDS.includes(session.state) && session.run?.live !== false;
}

/** How many processes an ended task has left running. */
const leftOf = (session) => (isRunning(session) ? 0 : (session.leftovers ?? []).length);

/** Whether the session runs or has left processes running. */
const lives = (session) => isRunning(session) || leftOf(session) > 0;

/** Why the session makes no progress: `input`, `password`, `stopped`, `stuck`, `network`, `other`; null if it does. */
function stallReason(session) {
  if (!isRunning(session)) return null;
  // An attached person answers the prompt.
  if (session.waitingFor) return session.attached ? null : session.waitingFor;
  const evidence = session.evidence ?? [];
  if (evidence.some((words) => words.startsWith('stopped'))) return 'stopped';
  if (session.status === 'stuck') return 'stuck';
  if (!session.status?.startsWith('blocked')) return null;
  return evidence.some((words) => /^waiting for (network )?peer/.test(words)) ? 'network' : 'other';
}

/** Whether the session needs a person: it is stuck, stopped or waiting for input. */
function needsAttention(session) {
  return ['input', 'password', 'stopped', 'stuck'].includes(stallReason(session));
}

/** Which of the list's three groups a session is in. */
function groupOf(session) {
  if (needsAttention(session)) return 'attention';
  return lives(session) ? 'running' : 'ended';
}

const HELD_UP = {
  input: { icon: 'input', tone: 'warn', word: 'Waiting for input' },
  password: { icon: 'input', tone: 'warn', word: 'Waiting for a password' },
  stopped: { icon: 'interrupted', tone: 'warn', word: 'Stopped' },
  stuck: { icon: 'alert', tone: 'warn', word: 'Stuck' },
  network: { icon: 'silent', tone: 'quiet', word: 'Waiting for the network' },
  other: { icon: 'silent', tone: 'quiet', word: 'Blocked' },
};
const RUNNING = {
  progressing: { icon: 'running', tone: 'active', word: 'Progressing' },
  slow: { icon: 'running', tone: 'active', word: 'Slow' },
  silent: { icon: 'silent', tone: 'quiet', word: 'Silent' },
  idle: { icon: 'silent', tone: 'quiet', word: 'Idle' },
};
const ENDED = {
  completed: { icon: 'success', tone: 'good', word: 'Completed' },
  failed: { icon: 'failure', tone: 'bad', word: 'Failed' },
  timeout: { icon: 'timeout', tone: 'warn', word: 'Timed out' },
  killed: { icon: 'killed', tone: 'quiet', word: 'Killed' },
  interrupted: { icon: 'interrupted', tone: 'quiet', word: 'Interrupted' },
  rejected: { icon: 'failure', tone: 'bad', word: 'Rejected' },
};

/** The badge of a session: its icon, its tone and its word. */
function badgeOf(session) {
  if (isRunning(session)) return runningBadge(session);
  if (leftOf(session)) return { icon: 'running', tone: 'quiet', word: `${leftOf(session)} left running` };
  const badge = ENDED[session.state.toLowerCase()] ?? { icon: 'interrupted', tone: 'quiet', word: 'Runner is gone' };
  const exit = session.exitCode;
  return exit === null || exit === undefined || session.state !== 'failed' ? badge : { ...badge, word: `Exit ${exit}` };
}

function runningBadge(session) {
  const held = HELD_UP[stallReason(session)];
  return held ?? RUNNING[session.status] ?? { icon: 'running', tone: 'active', word: 'Running' };
}

/** Why the session needs attention, as a sentence; null if it does not. */
function attentionText(session) {
  if (!needsAttention(session)) return null;
  const held = stallReason(session);
  if (held === 'stuck') return 'It makes no progress, and nothing is seen that would end that.';
  if (held === 'stopped') return 'One of its processes is stopped.';
  return session.prompt ? `It asks: ${session.prompt.trim()}` : 'It is reading its input.';
}

/** The elapsed time relative to the estimate, with text; null without an estimate. */
function estimateOf(session, elapsedMs) {
  const estimate = session.estimate;
  if (!estimate || !(estimate.medianMs > 0)) return null;
  const p90 = Math.max(estimate.p90Ms ?? estimate.medianMs, estimate.medianMs);
  const basis = `typical ${shortDuration(estimate.medianMs)}, p90 ${shortDuration(p90)}, ${counted(estimate.samples, 'run')}`;
  const scale = Math.max(p90, elapsedMs) * 1.06;
  const marks = { median: estimate.medianMs / scale, p90: p90 / scale, elapsed: elapsedMs / scale };
  if (elapsedMs > p90) return { ...marks, level: 'over', text: `past p90 by ${wholeSeconds(elapsedMs - p90)}`, basis };
  if (elapsedMs > estimate.medianMs) return { ...marks, level: 'late', text: 'longer than typical', basis };
  const left = session.remainingMs ?? estimate.medianMs - elapsedMs;
  return { ...marks, level: 'within', text: `${percent(elapsedMs / estimate.medianMs)} of typical, about ${wholeSeconds(left)} left`, basis };
}

/** `worker, iteration 2 of 5, claude`. */
function runWords(run) {
  const agents = run.auditor && run.auditor !== run.executor ? `${run.executor}, audited by ${run.auditor}` : run.executor;
  return [run.phase, `iteration ${run.iteration} of ${run.maxIterations}`, agents].filter(Boolean).join(' · ');
}

/** The processes that outlive a task. */
const leftWords = (session) => (session.leftovers ?? []).map((pid) => `pid ${pid}`).join(', ');

/** A short name; a host's ids begin with its name. */
function shortId({ id, host }) {
  const start = host ? host.length + 1 : 0;
  return id.slice(0, start + 8);
}

/** The host, server or runner of a session. */
function ownerWords(session) {
  if (session.host) return `on ${session.host}`;
  if (!isRun(session)) return serverWords(session.server);
  return session.pid ? `runner pid ${session.pid}` : 'no runner';
}

/** The client that detached a task, and the task's time limit; null for a task that ends with its server. */
function detachedWords(session) {
  if (!session.detached) return null;
  const { client, until } = session.detached;
  const by = client ? `detached by ${client}` : 'detached';
  return isRunning(session) ? `${by}, ${until ? `until ${dateAndTime(until)}` : 'without a limit'}` : by;
}

function serverWords(server) {
  if (!server) return 'no server';
  const pid = server.pid ? ` (pid ${server.pid})` : '';
  return server.own ? `this server${pid}` : `server ${server.instance}${pid}`;
}

/** Text without escape sequences and other control characters; tabs and line ends stay. */
function plainText(text) {
  return text
    .replace(/\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])/g, '')
    .replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g, '');
}

/** The judge's finding as text; the judge names it by letter or word. */
function findingWords(status) {
  const words = { a: 'Making progress', b: 'In a loop', c: 'Blocked', d: 'Failed' };
  const key = String(status ?? '').toLowerCase();
  const byName = { progress: 'a', loop: 'b', blocked: 'c', failed: 'd' };
  return words[key] ?? words[byName[key]] ?? 'Cannot tell';
}

const OUTCOMES = [
  { name: 'success', word: 'succeeded' },
  { name: 'failure', word: 'failed' },
  { name: 'timeout', word: 'timed out' },
  { name: 'killed', word: 'killed' },
  { name: 'interrupted', word: 'interrupted' },
];
const outcomeWord = (name) => OUTCOMES.find((outcome) => outcome.name === name)?.word ?? name;

/** The outcomes that occur, in a fixed order, with their counts. */
function outcomeCounts(runs) {
  return OUTCOMES.map((outcome) => ({ ...outcome, count: runs.filter((run) => run.outcome === outcome.name).length })).filter(
    (outcome) => outcome.count > 0,
  );
}

/** Whether a template, in which `*` matches any text, matches a command line. */
function fitsTemplate(template, command) {
  const parts = template.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's').test(command);
}
