// A stdio server as Streamable HTTP on the loopback, for the conformance suite, which
// speaks nothing else. It passes the server's own JSON on and does what falls to the
// transport alone: sessions, headers, status codes, event streams.
//
// Stateless requests share one server, under ids and progress tokens of the bridge's own,
// since each HTTP client counts from one. A legacy session has a server to itself.
import http from 'node:http';
import readline from 'node:readline';
import { randomUUID } from 'node:crypto';
import { spawn } from 'node:child_process';

const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';
const SUBSCRIPTION_KEY = 'io.modelcontextprotocol/subscriptionId';
const NAMED = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
  ['tasks/get', 'taskId'],
  ['tasks/update', 'taskId'],
  ['tasks/cancel', 'taskId'],
]);
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const HEADER_MISMATCH = -32020;
// What a JSON-RPC error of the stateless era is in HTTP.
const STATUS = new Map([
  [PARSE_ERROR, 400],
  [INVALID_REQUEST, 400],
  [-32601, 404],
  [-32602, 400],
  [HEADER_MISMATCH, 400],
  [-32021, 400],
  [-32022, 400],
]);

// One request's way back: plain JSON, or a stream of events once there is more to tell
// than the answer.
class Reply {
  constructor(response, stateless, headers = {}) {
    this.response = response;
    this.stateless = stateless;
    this.headers = headers;
  }

  tell(notification) {
    if (!this.response.headersSent) {
      this.response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', ...this.headers });
    }
    this.response.write(`event: message\ndata: ${JSON.stringify(notification)}\n\n`);
  }

  answer(message) {
    if (this.response.headersSent) {
      this.tell(message);
      this.response.end();
      return;
    }
    const status = (this.stateless && STATUS.get(message.error?.code)) || 200;
    this.response.writeHead(status, { 'content-type': 'application/json', ...this.headers });
    this.response.end(JSON.stringify(message));
  }
}

// A server process and the requests that it has not answered.
class Server {
  constructor([program, ...args], environment) {
    this.waiting = new Map();
    this.tokens = new Map();
    this.last = 0;
    this.process = spawn(program, args, { stdio: ['pipe', 'pipe', 'ignore'], env: environment });
    this.ended = new Promise((ended) => this.process.once('exit', ended));
    this.process.stdin.on('error', () => {}); // It has ended; its requests are told below.
    readline.createInterface({ input: this.process.stdout }).on('line', (line) => this.take(JSON.parse(line)));
    this.ended.then(() => this.waiting.forEach(({ reply }) => reply.response.destroy()));
  }

  write(message) {
    this.process.stdin.write(`${JSON.stringify(message)}\n`);
  }

  ask(message, reply) {
    this.last += 1;
    const id = `request-${this.last}`;
    const token = message.params?._meta?.progressToken;
    let { params } = message;
    if (token !== undefined) {
      const own = `token-${this.last}`;
      this.tokens.set(own, { reply, token });
      params = { ...params, _meta: { ...params._meta, progressToken: own } };
    }
    this.waiting.set(id, { reply, id: message.id });
    reply.response.on('close', () => {
      if (this.waiting.delete(id) && reply.stateless) {
        this.write({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
      }
    });
    this.write({ ...message, id, ...(params && { params }) });
  }

  take(message) {
    if (message.method === 'notifications/progress') {
      const { reply, token } = this.tokens.get(message.params.progressToken);
      reply.tell({ ...message, params: { ...message.params, progressToken: token } });
    } else if (message.params?._meta?.[SUBSCRIPTION_KEY] !== undefined) {
      const { _meta } = message.params;
      const subscribed = this.waiting.get(_meta[SUBSCRIPTION_KEY]);
      subscribed?.reply.tell({ ...message, params: { ...message.params, _meta: { ..._meta, [SUBSCRIPTION_KEY]: subscribed.id } } });
    } else if (message.method === undefined && this.waiting.has(message.id)) {
      const { reply, id } = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      reply.answer({ ...message, id });
    }
  }

  end() {
    this.process.stdin.end();
    return this.ended;
  }
}

const isLocal = (host) => host === undefined || /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(host);

function hostOf(origin) {
  try {
    return origin && new URL(origin).host;
  } catch {
    return 'not an origin';
  }
}

// Header values that ASCII cannot hold come in Base64.
function decoded(value) {
  const base64 = /^=\?base64\?(.*)\?=$/.exec(value ?? '');
  return base64 ? Buffer.from(base64[1], 'base64').toString('utf8') : value;
}

// What in the headers is not what the body says; nothing when they agree.
function mismatch(headers, { method, params }) {
  const claimed = params?._meta?.[VERSION_KEY];
  if (claimed === undefined) return undefined;
  if (headers['mcp-protocol-version'] !== claimed) return 'MCP-Protocol-Version';
  if (headers['mcp-method'] !== method) return 'Mcp-Method';
  const named = params[NAMED.get(method)];
  return named !== undefined && decoded(headers['mcp-name']) !== String(named) ? 'Mcp-Name' : undefined;
}

// Serves the command at `url` until `close` is awaited.
export async function bridge(command, environment) {
  const sessions = new Map();
  let shared;

  const refuse = (response, status, code, message, id = null) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } }));
  };
  const accept = (response, server, message) => {
    server.write(message);
    response.writeHead(202).end();
  };

  function post(request, response, body) {
    let message;
    try {
      message = JSON.parse(body);
    } catch {
      return refuse(response, 400, PARSE_ERROR, 'bad JSON');
    }
    const { headers } = request;
    const session = headers['mcp-session-id'];
    const isRequest = message.method !== undefined && message.id !== undefined;
    const saysEra = message.params?._meta?.[VERSION_KEY] !== undefined || headers['mcp-method'] !== undefined;
    const fromNewer = (headers['mcp-protocol-version'] ?? '') >= '2026';
    if (session === undefined && (saysEra || fromNewer)) {
      shared ??= new Server(command, environment);
      if (!isRequest) return accept(response, shared, message);
      const wrong = mismatch(headers, message);
      if (wrong) return refuse(response, 400, HEADER_MISMATCH, `${wrong} is not what the body says`, message.id);
      return shared.ask(message, new Reply(response, true));
    }
    if (message.method === 'initialize') {
      const id = randomUUID();
      sessions.set(id, new Server(command, environment));
      return sessions.get(id).ask(message, new Reply(response, false, { 'mcp-session-id': id }));
    }
    const server = sessions.get(session);
    if (!server) return refuse(response, session ? 404 : 400, INVALID_REQUEST, 'no such session');
    if (!isRequest) return accept(response, server, message);
    return server.ask(message, new Reply(response, false));
  }

  function other(request, response) {
    const session = request.headers['mcp-session-id'];
    const server = sessions.get(session);
    if (request.method === 'DELETE' && server) {
      sessions.delete(session);
      server.end();
      return response.writeHead(200).end();
    }
    if (request.method === 'GET' && server) {
      // The server sends nothing of its own accord; the stream stays open and silent.
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      return response.write(': open\n\n');
    }
    return refuse(response, session ? 404 : 405, INVALID_REQUEST, 'no such session or method');
  }

  const listener = http.createServer((request, response) => {
    if (!isLocal(request.headers.host) || !isLocal(hostOf(request.headers.origin))) {
      return refuse(response, 403, INVALID_REQUEST, 'not a local host or origin');
    }
    if (request.method !== 'POST') return other(request, response);
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (more) => (body += more));
    return request.on('end', () => post(request, response, body));
  });
  await new Promise((listening) => listener.listen(0, '127.0.0.1', listening));
  return {
    url: `http://localhost:${listener.address().port}/mcp`,
    async close() {
      listener.close();
      listener.closeAllConnections();
      await Promise.all([shared, ...sessions.values()].map((server) => server?.end()));
    },
  };
}
