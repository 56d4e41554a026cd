// A spinner of one's own, with the frames that all spinners have.
import spinners from 'cli-spinners';
const { frames, interval } = spinners.dots12;
let turn = 0;
setInterval(() => process.stdout.write(`\r${frames[turn++ % frames.length]} linking`), interval);
setTimeout(() => process.exit(), 85_000);
