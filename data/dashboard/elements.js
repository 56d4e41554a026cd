// The helpers that create all of the page's elements. Text from the server enters the page only
// through `textContent`.

const SVG = 'http://www.w3.org/2000/svg';
const byId = (id) => document.getElementById(id);

/** Creates an element; `text` becomes its text, names that begin with `on` listeners, the rest attributes. */
function element(tag, properties = {}, ...children) {
  return furnish(document.createElement(tag), properties, children);
}

function shape(tag, properties = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), properties, children);
}

function furnish(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'text') node.textContent = value;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** Sets a text only if it differs, so as not to disturb selections and screen readers. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Shows the text, or hides the element if the text is empty. */
function setOptional(node, text) {
  setHidden(node, !text);
  if (text) setText(node, text);
}

function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

function setAttribute(node, name, value) {
  if (value === null || value === undefined) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** Puts the children in this order, moving only those that are out of place. */
function arrange(parent, children) {
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}

const ICONS = {
  running: 'M8 2a6 6 0 1 1-6 6',
  silent: 'M8 2.2a5.8 5.8 0 1 0 0 11.6a5.8 5.8 0 1 0 0-11.6M5 8h.01M8 8h.01M11 8h.01',
  alert: 'M8 2.2L14.4 13.4H1.6zM8 6.4v3.2M8 11.6v.01',
  input: 'M2 4h12v8.4H2zM4.6 6.6l2 1.7l-2 1.7M8.4 10.2h3',
  success: 'M2.8 8.6l3.4 3.4l7-7.6',
  failure: 'M3.6 3.6l8.8 8.8M12.4 3.6l-8.8 8.8',
  timeout: 'M8 2.2a5.8 5.8 0 1 0 0 11.6a5.8 5.8 0 1 0 0-11.6M8 4.8V8l2.4 1.6',
  killed: 'M3.6 3.6h8.8v8.8H3.6z',
  interrupted: 'M5.4 3.4v9.2M10.6 3.4v9.2',
  close: 'M3.6 3.6l8.8 8.8M12.4 3.6l-8.8 8.8',
};

function icon(name) {
  const path = shape('path', { d: ICONS[name] ?? ICONS.silent });
  return shape('svg', { class: `icon icon-${name}`, viewBox: '0 0 16 16', 'aria-hidden': 'true' }, path);
}

function badge() {
  return element('span', { class: 'badge' });
}

function updateBadge(node, { icon: name, tone, word }) {
  if (node.dataset.icon !== name) {
    node.dataset.icon = name;
    node.replaceChildren(icon(name), element('span', { class: 'badge-word' }));
  }
  setAttribute(node, 'data-tone', tone);
  setText(node.lastElementChild, word);
}

function emptyState(node, title, ...lines) {
  node.replaceChildren(element('p', { class: 'empty-title', text: title }), ...lines);
  node.hidden = false;
}

/** A paragraph in which every second part is code. */
function withCode(...parts) {
  return element('p', {}, ...parts.map((part, at) => (at % 2 ? element('code', { text: part }) : part)));
}
