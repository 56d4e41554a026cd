// Has the real Claude Code, with the plugin of this HOME, run a command that no person
// allows: plugin_permission.mjs PERMISSIONS [MORE], the members of `permissions` in the user's
// settings, and more members of the settings. Exits 1 unless the command runs with the
// permissions, and only with them.
import fs from 'node:fs';
import path from 'node:path';
import { spawn } from 'node:child_process';
import { PATIENCE } from './lib.mjs';
import { MESSAGES, scripted } from './scripted_api.mjs';

const TOOL = 'mcp__plugin_zsh-tool_zsh-tool__zsh';
const settings = path.join(process.env.HOME, '.claude/settings.json');
const before = fs.readFileSync(settings, 'utf8');

const more = JSON.parse(`{${process.argv[3] ?? ''}}`);

async function result(permissions) {
  fs.writeFileSync(settings, JSON.stringify({ ...JSON.parse(before), ...more, ...JSON.parse(`{"permissions": {${permissions}}}`) }));
  const api = await scripted(MESSAGES, [
    { call: { name: TOOL, input: { command: 'print $((6*7))-allowed' } } },
    { text: 'the script is over' },
  ]);
  const environment = { ...process.env, ANTHROPIC_BASE_URL: api.url, ANTHROPIC_API_KEY: 'dummy' };
  const child = spawn('claude', ['-p', 'go'], { env: environment, stdio: ['ignore', 'inherit', 'inherit'] });
  const timer = setTimeout(() => child.kill(), 3 * PATIENCE * 1000);
  await new Promise((ended) => child.on('close', ended));
  clearTimeout(timer);
  api.close();
  return api.results().at(-1) ?? 'nothing';
}

const allowed = await result(process.argv[2]);
const asked = await result('');
fs.writeFileSync(settings, before);
console.log(`allowed: ${allowed}\nasked: ${asked}`);
process.exit(allowed.includes('42-allowed') && !asked.includes('42-allowed') ? 0 : 1);
