// Every benchmark in turn: the parts, then the whole path. Prints, asserts nothing. `npm run bench`
import { run as endToEnd } from './end-to-end.ts'
import { run as history } from './history.ts'
import { run as journal } from './journal.ts'
import { run as relp } from './relp.ts'
import { run as s3 } from './s3.ts'
import { run as sinks } from './sinks.ts'
import { run as splitter } from './splitter.ts'

for (const [name, run] of Object.entries({
  splitter,
  journal,
  sinks,
  s3: () => s3(),
  relp,
  history: () => history(),
  'end to end': () => endToEnd(),
})) {
  process.stdout.write(`\n== ${name}\n`)
  await run()
}
