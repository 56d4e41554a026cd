// The plots, as SVG drawn here: durations of one template over time, and the outcomes of
// all templates. Colours come from the style sheet; outcomes differ in shape as well.

/** Durations get a logarithmic scale if the longest exceeds the shortest by this factor. */
const LOG_FROM = 12;
const TEMPLATES_SHOWN = 8;
const HEIGHTS = { compact: 190, narrow: 280, wide: 360 };
/** The width from which a plot has room for more height, in pixels. */
const WIDE = 460;
const MARGIN = { top: 14, right: 14, bottom: 40, left: 62 };

/** Steps that a person reads easily, in milliseconds. */
const DURATION_STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500,
  ...[1, 2, 5, 10, 20, 30].map((step) => step * SECOND),
  ...[1, 2, 5, 10, 20, 30].map((step) => step * MINUTE),
  ...[1, 2, 4, 8, 12].map((step) => step * HOUR),
  ...[1, 2, 5, 10].map((step) => step * DAY),
];
/** Coarser steps for a wide range. */
const DECADES = [1, 10, 100, SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 10 * HOUR, 10 * DAY];
const MAX_TICKS = 7;
const TIME_STEPS = [
  ...[1, 2, 5, 10, 20, 30].map((step) => step * SECOND),
  ...[1, 2, 5, 10, 20, 30].map((step) => step * MINUTE),
  ...[1, 2, 3, 6, 12].map((step) => step * HOUR),
  ...[1, 2, 7, 14, 30, 60, 180, 365].map((step) => step * DAY),
];

const plots = { chosen: null, allTemplates: false, widths: '' };

function startPlots() {
  new ResizeObserver(() => {
    const widths = `${byId('outcomes').clientWidth} ${byId('durations').clientWidth}`;
    if (widths !== plots.widths) drawPlots();
  }).observe(byId('plots'));
}

/** Draws the history. */
function drawPlots() {
  const templates = page.history.templates;
  setHidden(byId('plots'), templates.length === 0);
  if (templates.length === 0) return showNoHistory();
  setHidden(byId('no-history'), true);
  plots.widths = `${byId('outcomes').clientWidth} ${byId('durations').clientWidth}`;
  const chosen = chosenTemplate(templates);
  drawOutcomes(byId('outcomes'), templates, chosen);
  drawDurations(byId('durations'), chosen);
}

/** The template that a person chose, otherwise the one with the longest total time. */
function chosenTemplate(templates) {
  const spent = ({ runs }) => runs.reduce((sum, run) => sum + run.durationMs, 0);
  const chosen = templates.find(({ template }) => template === plots.chosen);
  return chosen ?? templates.toSorted((one, other) => spent(other) - spent(one))[0];
}

function showNoHistory() {
  if (!page.history.known) return setHidden(byId('no-history'), true);
  emptyState(
    byId('no-history'),
    'No finished runs to draw yet',
    withCode('The history records every command that ends under a template, such as ', 'make test *', '. Durations and outcomes appear here.'),
  );
}

// Outcomes

function drawOutcomes(node, templates, chosen) {
  const focused = node.contains(document.activeElement) ? document.activeElement.dataset.template : null;
  const shown = plots.allTemplates ? templates : templates.slice(0, TEMPLATES_SHOWN);
  const maximum = Math.max(...templates.map(({ runs }) => runs.length), 1);
  const rows = element('ul', { class: 'outcome-rows' }, ...shown.map((template) => outcomeRow(template, maximum, template === chosen)));
  node.replaceChildren(outcomeLegend(templates), rows, outcomeAxis(node.clientWidth, maximum));
  if (shown.length < templates.length) node.append(moreTemplates(templates.length));
  if (focused) node.querySelector(`[data-template="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function moreTemplates(count) {
  const show = () => {
    plots.allTemplates = true;
    drawPlots();
  };
  return element('button', { type: 'button', class: 'button small', text: `Show all ${count} templates`, onclick: show });
}

function outcomeLegend(templates) {
  const present = outcomeCounts(templates.flatMap(({ runs }) => runs));
  return element('ul', { class: 'legend', 'aria-label': 'Legend' }, ...present.map(({ name, word }) => element('li', {}, legendMark(name), sentence(word))));
}

function legendMark(outcome) {
  return shape('svg', { class: 'legend-mark', viewBox: '-7 -7 14 14', 'aria-hidden': 'true' }, markShape(outcome));
}

function outcomeRow(template, maximum, isChosen) {
  const counts = outcomeCounts(template.runs);
  const words = counts.map(({ word, count }) => `${count} ${word}`).join(', ');
  const choose = () => {
    plots.chosen = template.template;
    drawPlots();
  };
  const name = element('span', { class: 'outcome-name', text: template.template });
  const text = element('span', { class: 'outcome-words', text: words });
  const properties = { type: 'button', class: 'outcome-row', 'data-template': template.template, 'aria-pressed': String(isChosen), onclick: choose };
  properties.title = `${template.template}\n${counted(template.runs.length, 'run')}: ${words}`;
  return element('li', {}, element('button', properties, name, text, outcomeBar(counts, maximum)));
}

/** A stacked bar with one unit of width per run. */
function outcomeBar(counts, maximum) {
  const bar = shape('svg', { class: 'outcome-bar', viewBox: `0 0 ${maximum} 10`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  let at = 0;
  for (const { name, count } of counts) {
    bar.append(shape('rect', { class: `fill-${name}`, x: at, y: 0, width: count, height: 10 }));
    at += count;
  }
  return bar;
}

function outcomeAxis(width, maximum) {
  const inner = Math.max(width - 20, 40);
  const axis = shape('svg', { class: 'axis', width, height: 34, 'aria-hidden': 'true' });
  for (const tick of countTicks(maximum)) {
    const x = 10 + (tick / maximum) * inner;
    const anchor = tick === 0 ? 'start' : tick === maximum ? 'end' : 'middle';
    axis.append(shape('line', { x1: x, x2: x, y1: 0, y2: 5 }), shape('text', { x, y: 17, 'text-anchor': anchor, text: tick }));
  }
  axis.append(shape('line', { x1: 10, x2: 10 + inner, y1: 0.5, y2: 0.5 }));
  axis.append(shape('text', { x: 10 + inner / 2, y: 31, 'text-anchor': 'middle', class: 'axis-title', text: 'runs' }));
  return axis;
}

function countTicks(maximum) {
  const step = [1, 2, 5, 10, 20, 50, 100].find((candidate) => maximum / candidate <= 6) ?? maximum;
  return Array.from({ length: Math.floor(maximum / step) + 1 }, (_, at) => at * step);
}

// Durations

/** Draws one template's runs over time into the node, unless the node has no width. */
function drawDurations(node, template, { compact = false } = {}) {
  const width = node.clientWidth;
  if (width === 0) return;
  const height = HEIGHTS[compact ? 'compact' : width < WIDE ? 'narrow' : 'wide'];
  const runs = template.runs.toSorted((one, other) => one.at - other.at);
  const area = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const y = durationScale([...runs.map((run) => run.durationMs), template.medianMs, template.p90Ms], area);
  const x = timeScale(runs.map((run) => run.at * SECOND), area);
  const tooltip = element('div', { class: 'tooltip', role: 'tooltip', hidden: true });
  const label = `Durations of ${template.template}, ${counted(runs.length, 'run')}, median ${shortDuration(template.medianMs)}, p90 ${shortDuration(template.p90Ms)}. The arrow keys move from run to run.`;
  const svg = shape('svg', { class: 'plot', width, height, role: 'group', 'aria-label': label });
  const statistics = statisticsOf(template);
  svg.append(...durationAxis(y, area), ...timeAxis(x, area), ...statistics.map((one) => statisticLine(one, y, area)), dots(runs, x, y, tooltip));
  const head = compact ? null : element('p', { class: 'plot-title', title: template.template }, element('code', { text: template.template }), element('span', { text: ` ${counted(runs.length, 'run')}${y.log ? ', logarithmic scale' : ''}` }));
  const marks = outcomeCounts(runs).map(({ name, word }) => element('li', {}, legendMark(name), sentence(word)));
  const key = element('ul', { class: 'legend', 'aria-label': 'Legend' }, ...statistics.map(statisticName), ...marks);
  node.replaceChildren(...[head, element('div', { class: 'plot-box' }, svg, tooltip), key].filter(Boolean));
}

function durationScale(values, area) {
  const known = values.filter((value) => Number.isFinite(value)).map((value) => Math.max(value, 1));
  const low = Math.min(...known, Infinity);
  const high = Math.max(...known, 1);
  const log = high / low > LOG_FROM;
  const from = log ? low / 1.4 : 0;
  const to = log ? high * 1.4 : high * 1.12;
  const part = log ? (value) => Math.log(Math.max(value, 1) / from) / Math.log(to / from) : (value) => value / to;
  const place = (value) => area.bottom - part(value) * (area.bottom - area.top);
  return { log, place, ticks: log ? logTicks(from, to) : linearTicks(to) };
}

function logTicks(from, to) {
  const inside = (steps) => steps.filter((step) => step >= from && step <= to);
  const fine = inside(DURATION_STEPS);
  return fine.length <= MAX_TICKS ? fine : inside(DECADES);
}

function linearTicks(to) {
  const step = DURATION_STEPS.find((candidate) => to / candidate < MAX_TICKS) ?? to;
  return Array.from({ length: Math.floor(to / step) + 1 }, (_, at) => at * step);
}

function durationAxis(y, area) {
  const lines = y.ticks.map((tick) => shape('line', { class: 'grid', x1: area.left, x2: area.right, y1: y.place(tick), y2: y.place(tick) }));
  const labels = y.ticks.map((tick) => shape('text', { x: area.left - 8, y: y.place(tick) + 4, 'text-anchor': 'end', text: tick === 0 ? '0' : shortDuration(tick) }));
  return [...lines, ...labels];
}

function timeScale(times, area) {
  const first = Math.min(...times);
  const last = Math.max(...times);
  const room = Math.max((last - first) * 0.04, SECOND);
  const from = first - room;
  const to = last + room;
  const place = (time) => area.left + ((time - from) / (to - from)) * (area.right - area.left);
  return { from, to, place };
}

/** Ticks at round local times, as many as fit. */
function timeTicks({ from, to }, area) {
  const limit = Math.max(2, Math.floor((area.right - area.left) / 90));
  const step = TIME_STEPS.find((candidate) => (to - from) / candidate <= limit) ?? TIME_STEPS.at(-1);
  const zone = new Date(from).getTimezoneOffset() * MINUTE;
  const ticks = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) ticks.push(at);
  return { ticks, step };
}

function timeAxis(x, area) {
  const { ticks, step } = timeTicks(x, area);
  const base = shape('line', { class: 'axis-line', x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom });
  const marks = ticks.map((tick) => shape('line', { class: 'axis-line', x1: x.place(tick), x2: x.place(tick), y1: area.bottom, y2: area.bottom + 4 }));
  const labels = ticks.map((tick) => shape('text', { x: x.place(tick), y: area.bottom + 17, 'text-anchor': 'middle', text: tickTime(tick, step) }));
  const title = shape('text', { class: 'axis-title', x: (area.left + area.right) / 2, y: area.bottom + 34, 'text-anchor': 'middle', text: step < DAY ? `time of day, ${dayOf(x.from, x.to)}` : 'day' });
  return [base, ...marks, ...labels, title];
}

function tickTime(at, step) {
  const time = new Date(at);
  const midnight = time.getHours() === 0 && time.getMinutes() === 0 && time.getSeconds() === 0;
  if (step >= DAY || midnight) return time.toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
  const clock = `${two(time.getHours())}:${two(time.getMinutes())}`;
  return step < MINUTE ? `${clock}:${two(time.getSeconds())}` : clock;
}

function dayOf(from, to) {
  const words = [from, to].map((at) => new Date(at).toLocaleDateString(undefined, { day: 'numeric', month: 'short' }));
  return words[0] === words[1] ? words[0] : words.join(' to ');
}

/** The known values of median and p90. */
function statisticsOf({ medianMs, p90Ms }) {
  return [['median', medianMs], ['p90', p90Ms]].filter(([, value]) => Number.isFinite(value));
}

function statisticLine([name, value], y, area) {
  return shape('line', { class: `statistic statistic-${name}`, x1: area.left, x2: area.right, y1: y.place(value), y2: y.place(value) });
}

/** The legend entry of a statistic, beneath the plot, where it hides no run. */
function statisticName([name, value]) {
  const sample = shape('svg', { class: 'legend-line', viewBox: '0 0 26 8', 'aria-hidden': 'true' }, shape('line', { class: `statistic statistic-${name}`, x1: 0, x2: 26, y1: 4, y2: 4 }));
  return element('li', { class: 'statistic-name' }, sample, `${name} ${shortDuration(value)}`);
}

/** The runs, as one stop of the Tab key; the arrow keys move between them. */
function dots(runs, x, y, tooltip) {
  const group = shape('g', { class: 'dots' });
  runs.forEach((run, at) => group.append(dot(run, x.place(run.at * SECOND), y.place(run.durationMs), at === runs.length - 1, tooltip)));
  group.addEventListener('keydown', (event) => moveAmongDots(event, group));
  return group;
}

function dot(run, x, y, reachable, tooltip) {
  const words = `${duration(run.durationMs)}, ${outcomeWord(run.outcome)}`;
  const when = dateAndTime(run.at);
  const node = shape('g', { class: 'dot', transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, tabindex: reachable ? 0 : -1, role: 'img', 'aria-label': `${words}, ${when}` });
  node.append(shape('circle', { class: 'dot-reach', r: 11 }), markShape(run.outcome));
  const show = () => showTooltip(tooltip, x, y, words, when);
  const hide = () => setHidden(tooltip, true);
  node.addEventListener('pointerenter', show);
  node.addEventListener('pointerleave', hide);
  node.addEventListener('focus', show);
  node.addEventListener('blur', hide);
  return node;
}

/** Each outcome has its own shape, so that it is recognizable without colour. */
function markShape(outcome) {
  const paths = {
    success: null,
    failure: 'M-4 -4L4 4M4 -4L-4 4',
    timeout: 'M0 -5L5 4H-5z',
    killed: 'M-4 -4H4V4H-4z',
    interrupted: 'M0 -5.4L5.4 0L0 5.4L-5.4 0z',
  };
  const path = paths[outcome] ?? null;
  return path ? shape('path', { class: `mark mark-${outcome}`, d: path }) : shape('circle', { class: 'mark mark-success', r: 4.2 });
}

function moveAmongDots(event, group) {
  const all = [...group.children];
  const at = all.indexOf(event.target);
  const to = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  const next = all[Math.min(Math.max(to, 0), all.length - 1)];
  all[at].setAttribute('tabindex', '-1');
  next.setAttribute('tabindex', '0');
  next.focus();
}

function showTooltip(tooltip, x, y, words, when) {
  tooltip.replaceChildren(element('strong', { text: sentence(words) }), element('span', { text: when }));
  tooltip.hidden = false;
  const box = tooltip.parentElement.clientWidth;
  const left = Math.min(Math.max(x - tooltip.offsetWidth / 2, 0), box - tooltip.offsetWidth);
  const above = y - tooltip.offsetHeight - 12;
  tooltip.style.setProperty('left', `${left}px`);
  tooltip.style.setProperty('top', `${above >= 0 ? above : y + 14}px`);
}

/** Hides all tooltips; returns whether any was visible. */
function hideTooltips() {
  const shown = [...document.querySelectorAll('.tooltip')].filter((tooltip) => !tooltip.hidden);
  for (const tooltip of shown) tooltip.hidden = true;
  return shown.length > 0;
}

// Circuits

function drawCircuits() {
  const node = byId('circuit-list');
  const { circuits, known } = page.history;
  if (!known) return node.replaceChildren();
  const unhealthy = circuits.toSorted((one, other) => circuitRank(one) - circuitRank(other));
  if (unhealthy.length === 0) {
    const empty = element('div', { class: 'empty' });
    emptyState(empty, 'All circuits are closed', withCode('No command is refused.'));
    return node.replaceChildren(empty);
  }
  const head = element('tr', {}, ...['Command', 'State', 'Timeouts', 'Tried again'].map((text) => element('th', { scope: 'col', text })));
  const rows = unhealthy.map(circuitRow);
  const table = element('table', {}, element('thead', {}, head), element('tbody', {}, ...rows));
  node.replaceChildren(element('div', { class: 'panel table-box' }, table));
}

const CIRCUITS = {
  open: { icon: 'killed', tone: 'bad', word: 'Open: refused' },
  'half-open': { icon: 'interrupted', tone: 'warn', word: 'Half-open: one try' },
  closed: { icon: 'success', tone: 'good', word: 'Closed' },
};
const circuitName = (circuit) => String(circuit.state).toLowerCase().replace('_', '-');
const circuitRank = (circuit) => Object.keys(CIRCUITS).indexOf(circuitName(circuit));

function circuitRow(circuit) {
  const state = badge();
  updateBadge(state, CIRCUITS[circuitName(circuit)] ?? { icon: 'silent', tone: 'quiet', word: circuit.state });
  const again = circuitName(circuit) === 'closed' ? { text: '–' } : { 'data-again': circuit.retryAt ?? '', text: againWords(circuit.retryAt) };
  return element(
    'tr',
    {},
    element('td', { 'data-name': 'Command' }, element('code', { text: circuit.command })),
    element('td', { 'data-name': 'State' }, state),
    element('td', { 'data-name': 'Timeouts', class: 'number', text: circuit.failures ?? 0 }),
    element('td', { 'data-name': 'Tried again', ...again }),
  );
}

function againWords(retryAt) {
  const wait = (Number(retryAt) || 0) * SECOND - page.nowMs();
  return wait <= 0 ? 'at the next call' : `in ${wholeSeconds(wait)}`;
}

function tickCircuits() {
  for (const cell of document.querySelectorAll('[data-again]')) setText(cell, againWords(cell.dataset.again));
}
