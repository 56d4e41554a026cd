// Runs the official conformance suites against the server: conformance.mjs BINARY FOLDER,
// where BINARY has the suites' fixture tools (the feature `conformance`) and FOLDER is
// where npm installed the suites. What is known to fail stands in
// conformance-*.yaml, and no more: what passes unexpectedly is a failure, too.
import path from 'node:path';
import { spawn } from 'node:child_process';
import { bridge } from './bridge.mjs';
import { check, finish, running, scratch } from './lib.mjs';

const [binary, folder] = process.argv.slice(2);
const here = import.meta.dirname;
const environment = { PATH: process.env.PATH, HOME: scratch, ZSH_TOOL_STATE_DIR: path.join(scratch, 'state') };

// What of a suite is run: all that its newest version of the protocol asks of a server.
// Extensions are not scored there, so those that pass are named.
const SUITES = [
  {
    name: 'conformance-2025',
    version: '2025-11-25',
    args: ['--suite', 'active', '--spec-version', '2025-11-25'],
    unscored: [],
  },
  {
    name: 'conformance-2026',
    version: '2026-07-28',
    args: ['--requirements', '2026-07-28'],
    unscored: [
      'tasks-lifecycle',
      'tasks-capability-negotiation',
      'tasks-wire-fields',
      'tasks-request-state-removal',
      'tasks-request-headers',
      'tasks-required-task-error',
    ],
  },
];

function run(program, args) {
  return new Promise((done) => {
    const child = spawn(process.execPath, [program, ...args], { cwd: scratch, env: { ...process.env, HOME: scratch } });
    let output = '';
    child.stdout.on('data', (more) => (output += more));
    child.stderr.on('data', (more) => (output += more));
    child.on('close', (code) => done({ code, output }));
  });
}

for (const { name, version, args, unscored } of SUITES) {
  const served = await bridge([binary, 'serve'], environment);
  const program = path.join(folder, 'node_modules', name, 'dist/index.js');
  const expected = path.join(here, `${name}.yaml`);
  const { code, output } = await run(program, ['server', '--url', served.url, '--expected-failures', expected, ...args]);
  await served.close();
  const summary = output.slice(output.lastIndexOf('=== SUMMARY ==='));
  check(`${version}: fails where it is known to, and nowhere else`, code === 0, summary);
  for (const scenario of unscored) check(`${version}: ${scenario}`, summary.includes(`✓ ${scenario}:`), summary);
  check(`${version}: nothing is left`, running().length === 0, running());
}
finish();
