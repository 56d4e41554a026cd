// How each coding agent is given a scripted model, and started headless.
import fs from 'node:fs';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { CHAT, GEMINI, MESSAGES, RESPONSES } from './scripted_api.mjs';

// The agents by name, set up in a scratch HOME for a project. `environment` is what their programs
// start with besides their own variables.
export function agentsIn(scratch, project, environment) {
  function write(file, value) {
    const place = path.join(scratch, file);
    fs.mkdirSync(path.dirname(place), { recursive: true });
    fs.writeFileSync(place, JSON.stringify(value, null, 2));
  }

  return {
    claude: {
      api: MESSAGES,
      prepare: () => {},
      environment: (url) => ({
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_API_KEY: 'x',
        CLAUDE_CODE_MAX_RETRIES: '1',
        DISABLE_AUTOUPDATER: '1',
        DISABLE_ERROR_REPORTING: '1',
        DISABLE_TELEMETRY: '1',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        // It refuses to skip permissions as root outside of a sandbox.
        IS_SANDBOX: '1',
        // The tools that it would have the model search for are there at once.
        ENABLE_TOOL_SEARCH: 'false',
      }),
      command: ['claude', '-p', 'go', '--dangerously-skip-permissions'],
      listed: ['claude', 'mcp', 'list'],
    },
    codex: {
      api: RESPONSES,
      prepare: (url) => {
        const place = path.join(scratch, '.codex/config.toml');
        fs.mkdirSync(path.dirname(place), { recursive: true });
        const provider = `[model_providers.scripted]\nname = "scripted"\nbase_url = "${url}/v1"\nwire_api = "responses"\nrequest_max_retries = 1\nstream_max_retries = 1\n`;
        fs.writeFileSync(place, `model = "gpt-5.5"\nmodel_provider = "scripted"\n\n${provider}`);
      },
      environment: () => ({}),
      // Its model would have to search for them first.
      named: (tool) => ({ name: tool, namespace: 'mcp__zsh_tool' }),
      command: ['codex', 'exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', 'go'],
      listed: ['codex', 'mcp', 'list'],
    },
    gemini: {
      api: GEMINI,
      prepare: () =>
        write('.gemini/settings.json', {
          security: { auth: { selectedType: 'gemini-api-key' }, folderTrust: { enabled: false } },
          privacy: { usageStatisticsEnabled: false },
          // After 30 turns it would ask another model whether this one turns in circles.
          model: { disableLoopDetection: true },
        }),
      environment: (url) => ({ GEMINI_API_KEY: 'x', GOOGLE_GEMINI_BASE_URL: url }),
      model: 'gemini-2.5-pro',
      command: ['gemini', '-p', 'go', '--yolo', '-m', 'gemini-2.5-pro'],
      listed: ['gemini', 'mcp', 'list'],
    },
    qwen: {
      api: CHAT,
      prepare: () =>
        write('.qwen/settings.json', {
          security: { auth: { selectedType: 'openai' } },
          privacy: { usageStatisticsEnabled: false },
        }),
      environment: (url) => ({ OPENAI_API_KEY: 'x', OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: 'scripted' }),
      command: ['qwen', '-p', 'go', '--yolo'],
      listed: ['qwen', 'mcp', 'list'],
    },
    opencode: {
      api: CHAT,
      prepare: (url) =>
        write('.config/opencode/opencode.json', {
          model: 'scripted/scripted',
          provider: {
            scripted: {
              npm: '@ai-sdk/openai-compatible',
              options: { baseURL: `${url}/v1`, apiKey: 'x' },
              models: { scripted: { name: 'scripted' } },
            },
          },
        }),
      environment: () => ({ OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1' }),
      command: ['opencode', 'run', 'go'],
      listed: ['opencode', 'mcp', 'list'],
    },
    copilot: {
      api: CHAT,
      prepare: () => {},
      environment: (url) => ({
        COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
        // It replaces its key wherever it prints it, also within words.
        COPILOT_PROVIDER_API_KEY: 'scripted-key',
        COPILOT_MODEL: 'gpt-4.1',
        COPILOT_OFFLINE: 'true',
      }),
      command: ['copilot', '-p', 'go', '--allow-all-tools', '--allow-all-paths'],
      listed: ['copilot', 'mcp', 'list'],
    },
    // It has no MCP: for agent runs alone. It is not installed with the others.
    aider: {
      api: { ...CHAT, isMain: () => true },
      prepare: () => {},
      environment: (url) => ({ OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: 'x', AIDER_ANALYTICS: 'false', AIDER_CHECK_UPDATE: 'false', AIDER_YES_ALWAYS: 'true' }),
      model: 'openai/scripted',
    },
    cline: {
      api: CHAT,
      prepare: (url) => {
        const words = ['auth', '-p', 'openai', '-k', 'x', '-m', 'scripted', '-b', `${url}/v1`];
        execFileSync('cline', words, { cwd: project, env: environment, stdio: 'pipe' });
      },
      environment: () => ({}),
      command: ['cline', '-t', '160', 'fix the tests'],
      listed: ['cline', 'config', 'mcp'],
    },
  };
}
