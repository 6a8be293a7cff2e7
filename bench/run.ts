// Every benchmark in turn, or those named: the parts, then the whole path. Prints, asserts nothing. `npm run bench [-- workspaces …]`
import { run as bare } from './bare.ts'
import { run as endToEnd } from './end-to-end.ts'
import { run as gzip } from './gzip.ts'
import { run as history } from './history.ts'
import { run as journal } from './journal.ts'
import { run as postgres } from './postgres.ts'
import { run as relp } from './relp.ts'
import { run as s3 } from './s3.ts'
import { run as sinks } from './sinks.ts'
import { run as splitter } from './splitter.ts'
import { run as workspaces } from './workspaces.ts'

const benches = {
  splitter,
  journal,
  postgres,
  gzip,
  sinks,
  s3: () => s3(),
  relp,
  history: () => history(),
  'end to end': () => endToEnd(),
  bare: () => bare(),
  workspaces: () => workspaces(),
}
const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => !(name in benches))
if (unknown.length > 0) throw new Error(`no benchmark is called ${unknown.join(', ')}: there is ${Object.keys(benches).join(', ')}`) // prettier-ignore

for (const [name, run] of Object.entries(benches)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  process.stdout.write(`\n== ${name}\n`)
  await run()
}
