// A test that passes, beside a server that is not closed.
test('answers', (done) => {
  const server = require('http').createServer(() => {});
  server.listen(0, '127.0.0.1', () => done());
});
