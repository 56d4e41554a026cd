// The programming interfaces of model makers, played on the loopback: what the model
// "says" is a script, so that real agents run without a model, a login or a network.
//
// A script is a list of steps: `{ call: { name, input } }`, `{ text }`, `{ status, headers }` for a
// refusal, `{ hang }` for no answer at all, or a function that makes one of them from the text of the
// newest tool result. The last step is said again when the script is over. A call's name may be the
// end of the one that the agent has given the tool. Limits: plays one conversation.
import http from 'node:http';
import zlib from 'node:zlib';

// Requests for a title or the like bring fewer tools than the conversation itself.
const FEW_TOOLS = 3;

class Script {
  constructor(steps) {
    this.steps = steps;
    this.next = 0;
  }

  say(newestResult) {
    const step = this.steps[Math.min(this.next, this.steps.length - 1)];
    this.next += 1;
    return typeof step === 'function' ? step(newestResult) : step;
  }
}

const textOf = (content) =>
  typeof content === 'string' ? content : (content ?? []).map((block) => block.text ?? '').join('\n');

function events(response) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  return (type, data) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
}

// Anthropic's Messages, as Claude Code speaks it.
export const MESSAGES = {
  isTurn: (url, body) => url.startsWith('/v1/messages') && !url.includes('count_tokens') && Array.isArray(body.messages),
  isMain: (body) => (body.tools ?? []).length > FEW_TOOLS,
  tools: (body) => (body.tools ?? []).map(({ name }) => ({ key: name, name })),
  results: (body) =>
    body.messages
      .flatMap((message) => (Array.isArray(message.content) ? message.content : []))
      .filter((block) => block.type === 'tool_result')
      .map((block) => textOf(block.content)),
  otherwise: (url) => (url.includes('count_tokens') ? { input_tokens: 100 } : {}),
  answer(response, body, step, number) {
    const block = step.call
      ? { type: 'tool_use', id: `toolu_${number}`, name: step.call.name, input: {} }
      : { type: 'text', text: '' };
    const delta = step.call
      ? { type: 'input_json_delta', partial_json: JSON.stringify(step.call.input) }
      : { type: 'text_delta', text: step.text };
    const usage = { input_tokens: 10, output_tokens: 5, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
    const message = { id: `msg_${number}`, type: 'message', role: 'assistant', model: body.model, stop_sequence: null, usage };
    const stop_reason = step.call ? 'tool_use' : 'end_turn';
    if (!body.stream) {
      const whole = step.call ? { ...block, input: step.call.input } : { ...block, text: step.text };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ ...message, content: [whole], stop_reason }));
      return;
    }
    const send = events(response);
    send('message_start', { message: { ...message, content: [], stop_reason: null } });
    send('content_block_start', { index: 0, content_block: block });
    send('content_block_delta', { index: 0, delta });
    send('content_block_stop', { index: 0 });
    send('message_delta', { delta: { stop_reason, stop_sequence: null }, usage });
    send('message_stop', {});
    response.end();
  },
};

// OpenAI's Responses, as Codex speaks it.
export const RESPONSES = {
  isTurn: (url) => /\/responses(\?|$)/.test(url),
  isMain: () => true,
  tools: (body) =>
    (body.tools ?? []).flatMap((tool) =>
      tool.type === 'namespace'
        ? tool.tools.map(({ name }) => ({ key: `${tool.name}_${name}`, name: { name, namespace: tool.name } }))
        : [{ key: tool.name ?? '', name: { name: tool.name } }],
    ),
  results: (body) => (body.input ?? []).filter((item) => item.type === 'function_call_output').map((item) => textOf(item.output)),
  otherwise: () => ({ data: [], models: [] }),
  answer(response, _body, step, number) {
    const item = step.call
      ? {
          type: 'function_call',
          id: `fc_${number}`,
          call_id: `call_${number}`,
          ...step.call.name,
          arguments: JSON.stringify(step.call.input),
        }
      : { type: 'message', id: `msg_${number}`, role: 'assistant', content: [{ type: 'output_text', text: step.text }] };
    const usage = { input_tokens: 1, input_tokens_details: null, output_tokens: 1, output_tokens_details: null, total_tokens: 2 };
    const send = events(response);
    send('response.created', { response: { id: `resp_${number}` } });
    send('response.output_item.done', { output_index: 0, item });
    send('response.completed', { response: { id: `resp_${number}`, usage } });
    response.end();
  },
};

// OpenAI's Chat Completions, as most agents speak them.
export const CHAT = {
  isTurn: (url) => /\/chat\/completions(\?|$)/.test(url),
  isMain: (body) => (body.tools ?? []).length > FEW_TOOLS,
  tools: (body) => (body.tools ?? []).map((tool) => ({ key: tool.function.name, name: tool.function.name })),
  results: (body) => body.messages.filter((message) => message.role === 'tool').map((message) => textOf(message.content)),
  otherwise: (url) => (url.endsWith('/models') ? { object: 'list', data: [{ id: 'scripted', object: 'model' }] } : {}),
  answer(response, body, step, number) {
    const calls = step.call
      ? [{ id: `call_${number}`, type: 'function', function: { name: step.call.name, arguments: JSON.stringify(step.call.input) } }]
      : undefined;
    const finish_reason = step.call ? 'tool_calls' : 'stop';
    const message = { role: 'assistant', content: step.call ? null : step.text, ...(calls && { tool_calls: calls }) };
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    const base = { id: `chatcmpl-${number}`, created: 1, model: body.model };
    if (!body.stream) {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ ...base, object: 'chat.completion', choices: [{ index: 0, finish_reason, message }], usage }));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const delta = calls ? { ...message, tool_calls: calls.map((call, index) => ({ index, ...call })) } : message;
    const send = (more) => response.write(`data: ${JSON.stringify({ ...base, object: 'chat.completion.chunk', ...more })}\n\n`);
    send({ choices: [{ index: 0, delta, finish_reason: null }] });
    send({ choices: [{ index: 0, delta: {}, finish_reason }] });
    send({ choices: [], usage });
    response.end('data: [DONE]\n\n');
  },
};

// Google's Gemini, as Gemini CLI speaks it.
export const GEMINI = {
  isTurn: (url) => /[gG]enerateContent(\?|$)/.test(url),
  isMain: (body) => GEMINI.tools(body).length > FEW_TOOLS,
  tools: (body) =>
    (body.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []).map(({ name }) => ({ key: name, name })),
  results: (body) =>
    body.contents
      .flatMap((content) => content.parts ?? [])
      .filter((part) => part.functionResponse)
      .map((part) => Object.values(part.functionResponse.response).map(String).join('\n')),
  otherwise: () => ({ totalTokens: 100 }),
  answer(response, _body, step, number, url) {
    const parts = step.call
      ? [{ functionCall: { id: `call_${number}`, name: step.call.name, args: step.call.input } }]
      : [{ text: step.text }];
    const whole = {
      candidates: [{ index: 0, content: { role: 'model', parts }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
    };
    const streams = url.includes('streamGenerateContent');
    response.writeHead(200, { 'content-type': streams ? 'text/event-stream' : 'application/json' });
    response.end(streams ? `data: ${JSON.stringify(whole)}\r\n\r\n` : JSON.stringify(whole));
  },
};

// The step with the whole name of its tool: the shortest of the agent's that ends so.
function named(api, body, step) {
  const name = step.call?.name;
  if (typeof name !== 'string') return step;
  const fits = ({ key }) => key === name || new RegExp(`[^a-z0-9]${name}$`).test(key);
  const [found = { name }] = api.tools(body).filter(fits).sort((a, b) => a.key.length - b.key.length);
  return { call: { ...step.call, name: found.name } };
}

function unpacked(request, bytes) {
  const text = request.headers['content-encoding'] === 'zstd' ? zlib.zstdDecompressSync(bytes) : bytes;
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

// What an endpoint says of a status, in the shape that most have.
const refusal = (status) => {
  const [type, message] = { 401: ['authentication_error', 'invalid x-api-key'], 429: ['rate_limit_error', 'too many requests'] }[status] ?? ['api_error', 'unavailable'];
  return { type: 'error', error: { type, code: status, message, status: status === 401 ? 'UNAUTHENTICATED' : 'RESOURCE_EXHAUSTED' } };
};

// Plays the interface until `close`; `turns` are the bodies that the agent sent.
export async function scripted(api, steps) {
  const script = new Script(steps);
  const turns = [];
  const listener = http.createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const body = unpacked(request, Buffer.concat(parts));
      if (!api.isTurn(request.url, body)) {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(api.otherwise(request.url)));
        return;
      }
      const main = api.isMain(body);
      if (main) turns.push(body);
      const step = main ? named(api, body, script.say(api.results(body).at(-1))) : { text: 'aside' };
      if (step.hang) return;
      if (step.status) {
        response.writeHead(step.status, { 'content-type': 'application/json', ...step.headers });
        response.end(JSON.stringify(step.body ?? refusal(step.status)));
        return;
      }
      api.answer(response, body, step, turns.length, request.url);
    });
  });
  await new Promise((listening) => listener.listen(0, '127.0.0.1', listening));
  return {
    url: `http://127.0.0.1:${listener.address().port}`,
    turns,
    // What the model has been given of its calls, in their order.
    results: () => api.results(turns.at(-1) ?? { messages: [] }),
    close() {
      listener.close();
      listener.closeAllConnections();
    },
  };
}
