// Any number of seeds by command: node test/simulation/main.ts [how many] [from which seed]; with --tell one seed's scenario, requests and log.
// With --postgres the journal is in a PostgreSQL of this machine, with takeovers and lost databases.
import { Database } from './postgres.ts'
import { simulate, simulateStage } from './simulate.ts'

const tell = process.argv.includes('--tell')
const isPostgres = process.argv.includes('--postgres')
const words = process.argv.slice(2).filter((word) => word !== '--tell' && word !== '--postgres')
const [count = 100, from = 1] = words.map(Number)
// Without this, a mistyped number would be no seed at all, and none of those fails.
if (words.length > 2 || !Number.isSafeInteger(count) || !Number.isSafeInteger(from) || count < 1) {
  process.stderr.write(
    'usage: node test/simulation/main.ts [how many, 100] [from which seed, 1] [--tell] [--postgres]\n',
  )
  process.exit(2)
}
const database = isPostgres ? await Database.start() : undefined
if (tell) {
  const { scenario, mock, logged } = await simulateStage(from, database)
  process.stdout.write(`${JSON.stringify(scenario)}\n`)
  for (const { at, target, status, elements, faults } of mock.requests)
    process.stdout.write(
      `${new Date(at).toISOString()} ${target} ${status} ${elements} ${faults.join(' ')}\n`,
    )
  process.stdout.write(`${logged.join('\n')}\n`)
  await database?.stop()
  process.exit()
}
const more = isPostgres ? ' --postgres' : ''
let failed = 0
const totals = { entries: 0, requests: 0, deaths: 0, takeovers: 0 }
for (let seed = from; seed < from + count; seed++) {
  const { faults, entries, requests, deaths, takeovers } = await simulate(seed, database)
  totals.entries += entries
  totals.requests += requests
  totals.deaths += deaths
  totals.takeovers += takeovers
  if (faults.length === 0) continue
  failed++
  process.stdout.write(
    `seed ${seed} failed; again with: node test/simulation/main.ts 1 ${seed}${more}\n  ${faults.join('\n  ')}\n`,
  )
}
process.stdout.write(
  `${count} seeds from ${from}: ${failed} failed; ${totals.entries} entries, ${totals.requests} requests, ${totals.deaths} deaths${database ? `, ${totals.takeovers} takeovers` : ''}\n`,
)
await database?.stop()
process.exitCode = failed > 0 ? 1 : 0
