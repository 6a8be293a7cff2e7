// What the parts cost with nothing around them, each stage in turn, and the daemon beside it: how much of its time is not theirs. Prints, asserts nothing. `node bench/bare.ts [entries] [runs]`
import { stages } from './bare-pipeline.ts'
import { drain, toHec } from './end-to-end.ts'
import { median, runToEnd, startHec, startMock } from './rig.ts'

interface Taken {
  readonly cpuSeconds: number
  readonly wallSeconds: number
}

async function bare(stage: string, entries: number): Promise<Taken> {
  const { url, mock } = await startMock(entries)
  const hec = await startHec()
  try {
    return await runToEnd(['bench/bare-pipeline.ts', stage, url, hec.url])
  } finally {
    mock.kill()
    hec.receiver.kill()
  }
}

/** The rows take turns, so that a machine whose speed drifts does so for all of them. */
export async function run(entries = 500_000, runs = 3): Promise<void> {
  const rows = [
    ...stages.map((stage) => ({ name: `bare: ${stage}`, take: () => bare(stage, entries) })),
    { name: 'daemon: none', take: () => drain(toHec('none'), entries) },
    { name: 'daemon: gzip', take: () => drain(toHec('gzip'), entries) },
  ]
  const taken = new Map<string, Taken[]>(rows.map(({ name }) => [name, []]))
  for (let round = 0; round < runs; round++)
    for (const { name, take } of rows) taken.get(name)?.push(await take())
  process.stdout.write(`${entries} entries, median of ${runs}, starts included\n`)
  process.stdout.write('                 entries/s   CPU s/M\n')
  for (const [name, all] of taken) {
    const rate = entries / median(all.map(({ wallSeconds }) => wallSeconds))
    const cpu = (median(all.map(({ cpuSeconds }) => cpuSeconds)) * 1_000_000) / entries
    process.stdout.write(`${name.padEnd(14)} ${rate.toFixed(0).padStart(11)} ${cpu.toFixed(1).padStart(9)}\n`)
  }
}

if (import.meta.main) {
  const [, , entries, runs] = process.argv
  await run(Number(entries ?? 500_000), Number(runs ?? 3))
}
