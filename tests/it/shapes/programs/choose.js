// Asks with a menu.
const prompts = require('prompts');
prompts({
  type: 'select',
  name: 'flavour',
  message: 'Pick a flavour',
  choices: [{ title: 'TypeScript' }, { title: 'JavaScript' }],
});
