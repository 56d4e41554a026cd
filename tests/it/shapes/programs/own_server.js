// A server and its client in one process; the answer comes after five minutes.
const http = require('http');
const answer = (request, response) => setTimeout(() => response.end('late'), 300000);
const server = http.createServer(answer).listen(0, '127.0.0.1', () => {
  http.get({ host: '127.0.0.1', port: server.address().port }, () => server.close());
});
