// Tasks of listr2, one of which is slow.
import { Listr } from 'listr2';
await new Listr([
  { title: 'Check', task: () => {} },
  { title: 'Publish', task: () => new Promise((done) => setTimeout(done, 85_000)) },
]).run();
