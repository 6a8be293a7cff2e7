// Any number of seeds by command: node test/simulation/main.ts [how many] [from which seed]; with --tell one seed's scenario, requests and log.
import { simulate, simulateWorld } from './simulate.ts'

const tell = process.argv.includes('--tell')
const [count = '100', from = '1'] = process.argv.slice(2).filter((word) => word !== '--tell')
if (tell) {
  const { scenario, mock, logged } = await simulateWorld(Number(from))
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
for (let seed = Number(from); seed < Number(from) + Number(count); seed++) {
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
