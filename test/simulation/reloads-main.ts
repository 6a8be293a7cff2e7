// Any number of seeds of reloads by command: node test/simulation/reloads-main.ts [how many] [from which seed]; with --tell one seed's plan and log.
import { runReloads } from './reloads-run.ts'

const tell = process.argv.includes('--tell')
const [count = 100, from = 1] = process.argv
  .slice(2)
  .filter((word) => word !== '--tell')
  .map(Number)
let failed = 0
let deaths = 0
for (let seed = from; seed < from + count; seed++) {
  const stage = await runReloads(seed)
  deaths += stage.deaths
  if (tell) process.stdout.write(`${JSON.stringify(stage.plan)}\n${stage.logged.join('\n')}\n`)
  if (stage.faults.length === 0) continue
  failed++
  process.stdout.write(`seed ${seed} failed:\n  ${stage.faults.join('\n  ')}\n`)
}
process.stdout.write(`${count} seeds from ${from}: ${failed} failed; ${deaths} deaths\n`)
process.exitCode = failed > 0 ? 1 : 0
