// A full-screen list of blessed.
const blessed = require('blessed');
const screen = blessed.screen();
const list = blessed.list({ parent: screen, keys: true, items: ['one', 'two', 'three'] });
list.focus();
screen.key('q', () => process.exit());
screen.render();
