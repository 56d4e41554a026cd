// What the checks in JavaScript share: counting them, a scratch HOME, and the processes
// that run from it.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

// Seconds for anything that should happen at once; only a fault runs it out.
export const PATIENCE = 20;

let passed = 0;
let failed = 0;
export function check(name, holds, seen = '') {
  if (holds) {
    passed += 1;
    console.log(`ok    ${name}`);
  } else {
    failed += 1;
    console.log(`FAIL  ${name}\n      ${JSON.stringify(seen)?.slice(0, 2000)}`);
  }
}

// Prints the count, removes the scratch HOME and ends with the code that says it.
export function finish() {
  fs.rmSync(scratch, { recursive: true, force: true });
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

export const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'zsh-tool-clients-'));

// The server and all that it started, told by their scratch HOME or the task cookie.
const marks = [`HOME=${scratch}\0`];
export const learnCookie = (instance) => marks.push(`ZSH_TOOL_TASK=${instance}`);
export const learnHome = (home) => marks.push(`HOME=${home}\0`);

// Command lines of the marked processes that carry all the arguments.
export const running = (...args) => marked(args).map(({ command }) => command);

// The pids of the servers, without their guards.
export const servers = () =>
  marked([])
    .map(({ pid }) => pid)
    .filter((pid) => fs.existsSync(`/proc/${pid}/comm`) && fs.readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'ztool');

// Ends the marked processes that carry all the arguments.
export const endRunning = (...args) => marked(args).forEach(({ pid }) => process.kill(pid));

function marked(args) {
  const found = [];
  for (const pid of fs.readdirSync('/proc')) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    try {
      const environment = fs.readFileSync(`/proc/${pid}/environ`, 'latin1');
      const command = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      if (marks.some((mark) => environment.includes(mark)) && args.every((arg) => command.includes(arg))) {
        found.push({ pid: Number(pid), command: command.join(' ') });
      }
    } catch {
      // It has just ended, or is another user's.
    }
  }
  return found;
}

// Whether the condition comes to hold; other processes offer nothing to await.
export async function eventually(holds, patience = PATIENCE) {
  const end = Date.now() + patience * 1000;
  while (!holds()) {
    if (Date.now() > end) return false;
    await sleep(20);
  }
  return true;
}

export const text = (result) =>
  result.content.filter((block) => block.type === 'text').map((block) => block.text).join('\n');
