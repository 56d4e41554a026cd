// Asks with a confirmation of enquirer.
const { Confirm } = require('enquirer');
new Confirm({ name: 'sure', message: 'Overwrite the files?' }).run().catch(() => {});
