// A menu of @clack/prompts.
import { select } from '@clack/prompts';
await select({
  message: 'Which framework?',
  options: [{ value: 'a', label: 'Astro' }, { value: 'b', label: 'Nuxt' }],
});
