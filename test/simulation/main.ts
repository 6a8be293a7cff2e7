// Any number of seeds by command: node test/simulation/main.ts [how many] [from which seed]; with --tell one seed's scenario, requests and log.
import { simulate, simulateWorld } from './simulate.ts'

const tell = process.argv.includes('--tell')
const words = process.argv.slice(2).filter((word) => word !== '--tell')
const [count = 100, from = 1] = words.map(Number)
// Without this, a mistyped number would be no seed at all, and none of those fails.
if (words.length > 2 || !Number.isSafeInteger(count) || !Number.isSafeInteger(from) || count < 1) {
  process.stderr.write('usage: node test/simulation/main.ts [how many, 100] [from which seed, 1] [--tell]\n')
  process.exit(2)
}
if (tell) {
  const { scenario, mock, logged } = await simulateWorld(from)
  process.stdout.write(`${JSON.stringify(scenario)}\n`)
  for (const { at, target, status, elements, faults } of mock.requests)
    process.stdout.write(
      `${new Date(at).toISOString()} ${target} ${status} ${elements} ${faults.join(' ')}\n`,
    )
  process.stdout.write(`${logged.join('\n')}\n`)
  process.exit()
}
let failed = 0
const totals = { entries: 0, requests: 0, deaths: 0 }
for (let seed = from; seed < from + count; seed++) {
  const { faults, entries, requests, deaths } = await simulate(seed)
  totals.entries += entries
  totals.requests += requests
  totals.deaths += deaths
  if (faults.length === 0) continue
  failed++
  process.stdout.write(
    `seed ${seed} failed; again with: node test/simulation/main.ts 1 ${seed}\n  ${faults.join('\n  ')}\n`,
  )
}
process.stdout.write(
  `${count} seeds from ${from}: ${failed} failed; ${totals.entries} entries, ${totals.requests} requests, ${totals.deaths} deaths\n`,
)
process.exitCode = failed > 0 ? 1 : 0
