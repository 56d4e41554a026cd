// A development server that takes single keys besides.
const server = require('http').createServer((request, response) => response.end('hello\n'));
server.listen(0, '127.0.0.1', () => {
  process.stdin.setRawMode(true);
  process.stdin.resume();
  process.stdin.on('data', () => {});
  console.log(`ready on http://127.0.0.1:${server.address().port}, press h for help`);
});
