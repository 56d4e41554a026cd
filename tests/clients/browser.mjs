// A headless Chromium, driven through chromedriver by plain WebDriver over HTTP.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PATIENCE, scratch } from './lib.mjs';

const ELEMENT = 'element-6066-11e4-a52e-4f735466cecf';
export const KEYS = { Tab: '\uE004', Enter: '\uE007', Escape: '\uE00C', Left: '\uE012', Right: '\uE014', Down: '\uE015', Shift: '\uE008' };

// Starts chromedriver on a port that it chooses; its first lines tell the port.
export async function startBrowser() {
  const driver = spawn('chromedriver', ['--port=0'], { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, HOME: scratch } });
  const port = await new Promise((settle, fail) => {
    let said = '';
    driver.on('error', fail);
    driver.on('exit', () => fail(new Error(`chromedriver ended: ${said}`)));
    driver.stdout.on('data', (bytes) => {
      said += bytes;
      const found = /started successfully on port (\d+)/.exec(said);
      if (found) settle(found[1]);
    });
  });
  const browser = new Browser(driver, `http://127.0.0.1:${port}`);
  await browser.open();
  return browser;
}

class Browser {
  constructor(driver, address) {
    this.driver = driver;
    this.address = address;
  }

  async open() {
    const args = ['--headless=new', '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--hide-scrollbars', '--force-device-scale-factor=1', `--user-data-dir=${path.join(scratch, 'chromium')}`];
    const capabilities = { alwaysMatch: { browserName: 'chrome', 'goog:chromeOptions': { args }, 'goog:loggingPrefs': { browser: 'ALL' } } };
    const { sessionId } = await this.ask('POST', '/session', { capabilities });
    this.session = `/session/${sessionId}`;
  }

  async ask(method, where, body) {
    const response = await fetch(this.address + where, { method, body: body && JSON.stringify(body) });
    const { value } = await response.json();
    if (!response.ok) throw new Error(`${method} ${where}: ${value.error}: ${value.message}`);
    return value;
  }

  send(where, body = {}) {
    return this.ask('POST', this.session + where, body);
  }

  go(url) {
    return this.send('/url', { url });
  }

  // Calls the function in the page; what it takes and gives is JSON.
  run(body, ...args) {
    return this.send('/execute/sync', { script: `return (${body})(...arguments)`, args });
  }

  devtools(cmd, params = {}) {
    return this.send('/goog/cdp/execute', { cmd, params });
  }

  // The window's size in CSS pixels, and whether it is a telephone's.
  size(width, height) {
    return this.devtools('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 });
  }

  media(features) {
    return this.devtools('Emulation.setEmulatedMedia', { features: Object.entries(features).map(([name, value]) => ({ name, value })) });
  }

  // Presses keys one after another, held down together with Shift where asked.
  async press(key, { shift = false } = {}) {
    const tap = [{ type: 'keyDown', value: key }, { type: 'keyUp', value: key }];
    const actions = shift ? [{ type: 'keyDown', value: KEYS.Shift }, ...tap, { type: 'keyUp', value: KEYS.Shift }] : tap;
    await this.send('/actions', { actions: [{ type: 'key', id: 'keyboard', actions }] });
  }

  async type(text) {
    const actions = [...text].flatMap((value) => [{ type: 'keyDown', value }, { type: 'keyUp', value }]);
    await this.send('/actions', { actions: [{ type: 'key', id: 'keyboard', actions }] });
  }

  async click(selector) {
    const found = await this.send('/element', { using: 'css selector', value: selector });
    await this.send(`/element/${found[ELEMENT]}/click`);
  }

  // Whether the function comes to return something true in the page.
  async until(body, ...args) {
    const end = Date.now() + PATIENCE * 1000;
    while (!(await this.run(body, ...args))) {
      if (Date.now() > end) return false;
      await sleep(50);
    }
    return true;
  }

  // What the console has got since the last question, warnings and worse.
  async complaints() {
    const entries = await this.send('/se/log', { type: 'browser' });
    return entries.filter(({ level }) => level === 'SEVERE' || level === 'WARNING').map(({ message }) => message);
  }

  async screenshot(file) {
    fs.writeFileSync(file, Buffer.from(await this.ask('GET', `${this.session}/screenshot`), 'base64'));
  }

  async close() {
    await this.ask('DELETE', this.session).catch(() => null);
    const ended = new Promise((settle) => this.driver.on('exit', settle));
    this.driver.kill();
    await ended;
  }
}
