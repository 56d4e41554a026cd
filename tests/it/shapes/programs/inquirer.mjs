// Asks with a menu of @inquirer/prompts, or for a password.
import { password, select } from '@inquirer/prompts';
if (process.argv[2] === 'password') await password({ message: 'npm token' });
else await select({ message: 'Which template?', choices: ['minimal', 'full'] });
