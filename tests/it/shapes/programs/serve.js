// A development server: it says where it listens, and then nothing.
const server = require('http').createServer((request, response) => response.end('hello\n'));
server.listen(0, '127.0.0.1', () => {
  console.log(`ready on http://127.0.0.1:${server.address().port}`);
});
