// The field for typing into a task that waits for input, on its card and in its details.

function inputField(id) {
  const parts = {
    field: element('input', { type: 'text', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' }),
    send: element('button', { type: 'submit', class: 'button small', text: 'Send' }),
    error: element('p', { class: 'input-error', role: 'alert', hidden: true }),
    sending: false,
  };
  const submit = (event) => {
    event.preventDefault();
    sendInput(id, parts);
  };
  parts.root = element('form', { class: 'input', autocomplete: 'off', hidden: true, onsubmit: submit }, parts.field, parts.send, parts.error);
  return parts;
}

/** Shows the field while the task waits; `heading` gets the focus that a hidden field would lose. */
function updateInput(parts, session, heading) {
  const { root, field, send, error } = parts;
  const wanted = isRunning(session) && session.canKill ? session.waitingFor : null;
  const type = wanted === 'password' ? 'password' : 'text';
  // Text for one prompt must not answer another, and a password must not become readable.
  if (!wanted || field.type !== type) {
    field.value = '';
    setOptional(error, '');
  }
  if (!wanted && root.contains(document.activeElement)) heading.focus({ preventScroll: true });
  setHidden(root, !wanted);
  setAttribute(field, 'type', type);
  setAttribute(field, 'placeholder', wanted === 'password' ? 'Password' : 'Input');
  setAttribute(field, 'aria-label', `${wanted === 'password' ? 'Password' : 'Input'} for ${firstLine(session.title)}`);
  setAttribute(send, 'aria-disabled', page.live ? null : 'true');
}

async function sendInput(id, parts) {
  const { field, error } = parts;
  if (parts.sending) return;
  if (!page.live) return setOptional(error, 'The connection to the server is lost.');
  parts.sending = true;
  field.readOnly = true;
  setOptional(error, '');
  try {
    await post(`/api/tasks/${encodeURIComponent(id)}/input`, { text: field.value });
    field.value = '';
  } catch (refused) {
    setOptional(error, `Not sent: ${refused.message}`);
  }
  field.readOnly = false;
  parts.sending = false;
}
