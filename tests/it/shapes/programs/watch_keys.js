// Watches files and takes single keys, as test runners in watch mode do.
const fs = require('fs');
if (process.stdin.isTTY) {
  process.stdin.setRawMode(true);
  process.stdin.resume();
  process.stdin.on('data', () => {});
}
fs.watch('.', () => {});
console.log('Watch usage: press a to run all tests, q to quit.');
