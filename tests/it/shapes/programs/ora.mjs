// A spinner over slow work: a timer, or an answer of a server.
import ora from 'ora';
const spinner = ora('Deploying to production').start();
const [seconds, address] = process.argv.slice(2);
if (address) await fetch(address).catch(() => {});
else await new Promise((done) => setTimeout(done, seconds * 1000));
spinner.succeed('Deployed');
