// The list of sessions: those that need attention, then running ones, then ended ones. Cards are
// created once and changed in place, so that focus and selections stay.

const GROUPS = [
  { name: 'attention', title: 'Needs attention', short: 'Attention' },
  { name: 'running', title: 'Running' },
  { name: 'ended', title: 'Ended' },
];
const SEGMENTS = [{ name: 'all', title: 'All' }, ...GROUPS];
/** How many ended sessions are shown before a person requests all. */
const ENDED_SHOWN = 12;
const TAIL_LINES = 5;
/** Silence is mentioned after this time, in milliseconds. */
const SILENT_FROM = 5 * SECOND;

const list = { cards: new Map(), groups: new Map(), segment: 'all', search: '', allEnded: false };

function startList() {
  for (const segment of SEGMENTS) byId('segments').append(segmentButton(segment));
  for (const group of GROUPS) list.groups.set(group.name, makeGroup(group));
  byId('groups').append(...[...list.groups.values()].map((group) => group.section));
  byId('search').addEventListener('input', (event) => {
    list.search = event.target.value.trim().toLowerCase();
    showList();
  });
}

function segmentButton({ name, title, short = title }) {
  const choose = () => {
    list.segment = name;
    showList();
  };
  const count = element('span', { class: 'segment-count' });
  return element('button', { type: 'button', class: 'segment', 'data-segment': name, onclick: choose }, `${short} `, count);
}

function makeGroup({ name, title }) {
  const heading = element('h2', { class: 'group-title', text: title });
  const cards = element('ul', { class: 'cards' });
  const showAll = () => {
    list.allEnded = true;
    showList();
  };
  const more = element('button', { type: 'button', class: 'button more', hidden: true, onclick: showAll });
  const section = element('section', { class: `group group-${name}`, 'aria-label': title, hidden: true }, heading, cards, more);
  return { section, cards, more };
}

/** Redraws the list. */
function showList() {
  const shown = page.sessions.filter(isWanted);
  for (const { name } of GROUPS) showGroup(name, shown.filter((session) => groupOf(session) === name));
  forgetCards();
  showSegments();
  showNoSessions(shown.length);
  showSelection();
}

function isWanted(session) {
  if (list.segment !== 'all' && groupOf(session) !== list.segment) return false;
  const text = [session.id, session.title, session.directory, session.description].join('\n').toLowerCase();
  return text.includes(list.search);
}

function showGroup(name, sessions) {
  const group = list.groups.get(name);
  const sorted = sessions.toSorted((one, other) => endOf(other) - endOf(one));
  const some = name === 'ended' && !list.allEnded ? sorted.slice(0, ENDED_SHOWN) : sorted;
  arrange(group.cards, some.map(cardFor));
  setHidden(group.section, sorted.length === 0);
  setOptional(group.more, some.length < sorted.length ? `Show all ${sorted.length}` : '');
}

/** When the session ended, or started if it still runs. */
function endOf(session) {
  return session.startedAt + (session.durationMs ?? 0) / SECOND;
}

function cardFor(session) {
  let card = list.cards.get(session.id);
  if (!card) {
    card = makeCard(session);
    list.cards.set(session.id, card);
  }
  updateCard(card, session);
  return card.root;
}

function forgetCards() {
  for (const id of list.cards.keys()) {
    if (!page.byId.has(id)) list.cards.delete(id);
  }
}

function makeCard(session) {
  const parts = {
    badge: badge(),
    detached: element('span', { class: 'tag', text: 'Detached' }),
    title: element('button', { type: 'button', class: 'card-title', 'aria-controls': 'details', onclick: () => select(session.id, parts.title) }),
    time: element('span', { class: 'card-time' }),
    end: element('button', { type: 'button', class: 'button small danger-quiet', onclick: () => askToEnd(session.id) }),
    description: element('p', { class: 'card-description' }),
    attention: element('p', { class: 'attention' }),
    input: inputField(session.id),
    facts: element('p', { class: 'card-facts' }),
    estimate: estimateBar(),
    tail: element('pre', { class: 'tail' }),
    meta: element('p', { class: 'card-meta' }),
  };
  const head = element('div', { class: 'card-head' }, parts.badge, parts.title, parts.detached, parts.time, parts.end);
  const about = element('div', { class: 'card-about' }, parts.description, parts.attention, parts.input.root, parts.estimate.root, parts.facts, parts.meta);
  const body = element('div', { class: 'card-body' }, about, parts.tail);
  return { ...parts, root: element('li', { class: 'card', 'data-id': session.id, 'data-kind': session.kind }, head, body) };
}

function updateCard(card, session) {
  const state = badgeOf(session);
  setAttribute(card.root, 'data-tone', state.tone);
  setAttribute(card.root, 'data-group', groupOf(session));
  updateBadge(card.badge, state);
  setText(card.title, firstLine(session.title));
  setAttribute(card.title, 'title', session.title);
  setOptional(card.description, session.description ?? reasonOf(session));
  setHidden(card.detached, !session.detached);
  setOptional(card.attention, attentionText(session));
  updateInput(card.input, session, card.title);
  setOptional(card.tail, isRunning(session) ? tailOf(session, TAIL_LINES) : '');
  setText(card.meta, metaWords(session));
  showEndButton(card.end, session);
  tickCard(card, session);
}

/** Updates the parts that change with time. */
function tickCard(card, session) {
  const running = isRunning(session);
  const elapsed = elapsedOf(session);
  setText(card.time, running ? wholeSeconds(elapsed) : duration(session.durationMs ?? session.elapsedMs));
  updateEstimate(card.estimate, running ? estimateOf(session, elapsed) : null);
  setOptional(card.facts, running ? factWords(session).join('  ·  ') : '');
  if (!running) setText(card.meta, metaWords(session));
}

function factWords(session) {
  const silent = silentOf(session);
  const words = [...(session.evidence ?? [])];
  if (silent >= SILENT_FROM) words.push(`silent for ${wholeSeconds(silent)}`);
  if (session.degraded) words.push('its processes cannot be observed');
  return words;
}

function metaWords(session) {
  const words = [shortId(session), session.directory];
  if (isRun(session) && session.run) words.splice(1, 0, runWords(session.run));
  if (leftOf(session)) words.push(`left running: ${leftWords(session)}`);
  if (!isRunning(session)) words.push(`ended ${ago(page.nowMs() - endOf(session) * SECOND)}`);
  words.push(detachedWords(session) ?? ownerWords(session));
  return words.filter(Boolean).join('  ·  ');
}

/** Why a run that does not run is in its state. */
const reasonOf = (session) => (isRunning(session) || !session.run?.reason ? null : stateWords(session.run.reason));

function tailOf(session, limit) {
  const lines = (session.tail ?? []).map(plainText);
  while (lines.length > 0 && lines.at(-1).trim() === '') lines.pop();
  return lines.slice(-limit).join('\n');
}

/** A bar that compares the elapsed time with median and p90, with text beneath. */
function estimateBar() {
  const fill = element('span', { class: 'bar-fill' });
  const over = element('span', { class: 'bar-over' });
  const marks = [element('span', { class: 'bar-mark bar-median' }), element('span', { class: 'bar-mark bar-p90' })];
  const bar = element('div', { class: 'bar', 'aria-hidden': 'true' }, fill, over, ...marks);
  const text = element('span', { class: 'bar-text' });
  const basis = element('span', { class: 'bar-basis' });
  return { root: element('div', { class: 'estimate', hidden: true }, bar, element('p', { class: 'bar-words' }, text, basis)), bar, text, basis };
}

function updateEstimate(parts, estimate) {
  setHidden(parts.root, estimate === null);
  if (!estimate) return;
  setAttribute(parts.root, 'data-level', estimate.level);
  for (const mark of ['median', 'p90', 'elapsed']) parts.bar.style.setProperty(`--${mark}`, estimate[mark].toFixed(4));
  setText(parts.text, sentence(estimate.text));
  setText(parts.basis, estimate.basis);
}

/** The button that ends a session: shown while the session has processes, disabled with the reason if it cannot. */
function showEndButton(button, session) {
  setHidden(button, !lives(session));
  const reason = whyNotEnded(session);
  setText(button, isRun(session) ? 'Stop' : 'Kill');
  setAttribute(button, 'aria-label', `${isRun(session) ? 'Stop the run' : 'Kill'} ${firstLine(session.title)}${reason ? `: ${reason}` : ''}`);
  setAttribute(button, 'aria-disabled', reason ? 'true' : null);
  setAttribute(button, 'title', reason);
}

/** Why this page cannot end the session; null if it can. */
function whyNotEnded(session) {
  if (!page.live) return 'The connection to the server is lost.';
  if (isRun(session)) return session.canStop === false ? 'The process that runs it is gone.' : null;
  return session.canKill ? null : `The ${serverWords(session.server)} cannot be reached: end the task where it was started.`;
}

function showSegments() {
  for (const button of byId('segments').children) {
    const name = button.dataset.segment;
    const count = name === 'all' ? page.sessions.length : page.sessions.filter((session) => groupOf(session) === name).length;
    setText(button.lastElementChild, String(count));
    setAttribute(button, 'aria-pressed', String(list.segment === name));
  }
}

function showNoSessions(shown) {
  const empty = byId('no-sessions');
  if (shown > 0 || !page.known) return setHidden(empty, true);
  if (page.sessions.length > 0) return emptyState(empty, 'No matches', withCode('No session of this kind has this text in its command, directory or id.'));
  emptyState(
    empty,
    'Nothing has run yet',
    withCode('A command appears here when an agent calls ', 'zsh', ', or when you run one:'),
    element('pre', { text: 'zsh-tool exec -- make test' }),
  );
}

function showSelection() {
  for (const [id, card] of list.cards) {
    const selected = id === page.selected;
    card.root.classList.toggle('selected', selected);
    setAttribute(card.title, 'aria-expanded', String(selected));
  }
}

function tickList() {
  for (const session of page.sessions) {
    const card = list.cards.get(session.id);
    if (card) tickCard(card, session);
  }
}
