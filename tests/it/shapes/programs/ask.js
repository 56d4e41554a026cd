// Asks a question by lines.
const readline = require('readline');
const lines = readline.createInterface({ input: process.stdin, output: process.stdout });
lines.question('Project name? ', () => lines.close());
