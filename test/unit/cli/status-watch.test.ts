// `status --watch` without an answer: before the daemon runs, while it restarts, and for good.
import { expect, test } from 'vitest'
import { type Look, watchStatus } from '../../../src/cli/status-watch.ts'
import type { CommandContext } from '../../../src/cli/shared/context.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import { openRegistrySetup } from '../observability/registry-setup.ts'
import { openContext } from './context.ts'

const noDaemon: Look = { message: 'auditferry: no daemon runs here\n' }
const report: Look = { report: { ...openRegistrySetup().registry.status(), ok: true } }

interface Options extends Partial<Pick<CommandContext, 'colours' | 'print'>> {
  readonly looksUntilStop?: number
}

/** The results of the looks in turn; the last one repeats. Time passes only by sleep. */
function watched(
  looks: readonly (Look | Error)[],
  { colours = false, looksUntilStop = Infinity, ...more }: Options = {},
) {
  const { context, stop, heard } = openContext()
  const startAt = Date.UTC(2026, 10, 21, 10)
  const spent = { ms: 0, looks: 0 }
  const clock = {
    now: () => startAt + spent.ms,
    elapsed: () => spent.ms,
    sleep: async (ms: number) => {
      spent.ms += ms
      if (spent.looks >= looksUntilStop) stop.abort()
    },
  }
  const look = async () => {
    const found = looks[Math.min(spent.looks++, looks.length - 1)]
    if (found === undefined || found instanceof Error) throw found ?? new Error('no look')
    return found
  }
  const code = watchStatus({ ...context, colours, ...more }, look, () => 'report\n', clock)
  return { code, heard, spent }
}

test('a daemon that never answers is waited for 30 s: reported once, then with the time since, and exit 1', async () => {
  const { code, heard, spent } = watched([noDaemon])
  expect(await code).toBe(1)
  expect(spent.ms).toBe(30_000)
  const lines = heard().stderr.split('\n')
  expect(lines.slice(0, 3)).toEqual([
    'auditferry: no daemon runs here',
    'auditferry: no answer since 2026-11-21 10:00:00 UTC: looking again every 2 s, for 30 s more',
    'auditferry: no answer since 2026-11-21 10:00:00 UTC: looking again every 2 s, for 28 s more',
  ])
  expect(lines.at(-2)).toBe('auditferry: no answer since 2026-11-21 10:00:00 UTC: the watch ends')
})

test('a watch started before the daemon shows it once it runs', async () => {
  const { code, heard } = watched([noDaemon, noDaemon, report], { looksUntilStop: 3 })
  expect(await code).toBe(0)
  expect(heard().stdout).toBe('report\n')
})

test('a watch continues through a restart, also one that interrupts an answer, and waits in full after each', async () => {
  const broken = new ConnectorError('unreachable', 'The control socket broke off')
  const hung = new ConnectorError('timeout', 'The daemon did not answer')
  const silence = Array.from({ length: 148 }, () => noDaemon)
  const { code, heard, spent } = watched([report, broken, hung, ...silence, report, noDaemon])
  expect(await code).toBe(1)
  expect(spent.ms).toBe(2_000 + 300_000 + 2_000 + 300_000)
  const { stdout, stderr } = heard()
  expect(stdout).toBe('report\nreport\n')
  expect(stderr).toContain(
    'auditferry: The control socket broke off\nauditferry: no answer since 2026-11-21 10:00:02 UTC: looking again every 2 s, for 5 min more\n',
  )
})

test('a cleared screen shows everything at each look', async () => {
  const { code, heard } = watched([noDaemon], { colours: true, looksUntilStop: 3 })
  expect(await code).toBe(1)
  expect(heard().stderr.match(/no daemon runs here/g)).toHaveLength(3)
})

test('an error other than no answer ends the watch', async () => {
  await expect(watched([new ConnectorError('bad_reply', 'older')]).code).rejects.toThrow('older')
})

test('a closed output ends the watch with the last result', async () => {
  const gone = Object.assign(new Error('the reader is gone'), { code: 'EPIPE' })
  expect(await watched([report], { print: () => Promise.reject(gone) }).code).toBe(0)
})

test('a signal ends the watch of a hanging daemon', async () => {
  const { context, stop } = openContext()
  const hung = () => new Promise<never>(() => undefined)
  const clock = { now: () => 0, elapsed: () => 0, sleep: hung }
  const code = watchStatus(context, hung, () => '', clock)
  stop.abort(new Error('SIGINT'))
  expect(await code).toBe(1)
})
