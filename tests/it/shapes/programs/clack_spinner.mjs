// A spinner of @clack/prompts over slow work.
import { spinner } from '@clack/prompts';
const turning = spinner();
turning.start('Installing dependencies');
await new Promise((done) => setTimeout(done, 85_000));
turning.stop('Installed');
