// Which suites there are; test/README.md says what each holds and needs.
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

const compiled = join(import.meta.dirname, 'node_modules/.cache/compiled')

const suite = (name: string, folders: string[], testTimeout: number, more: object = {}) => ({
  test: {
    name,
    include: folders.map((folder) => `test/${folder}/**/*.test.ts`),
    testTimeout,
    hookTimeout: testTimeout,
    environment: 'node' as const,
    // The runner's own second is too little for a busy machine.
    expect: { poll: { timeout: 10_000 } },
    // Processes that the tests start: their modules are compiled once.
    env: { NODE_COMPILE_CACHE: compiled },
    ...more,
  },
})

/** `npm test` and `npm run test:postgres` run the first rounds of these, `npm run test:long` the rest (`test/rounds.ts`). */
const inRounds = [
  'test/simulation/*.test.ts',
  'test/e2e/{kill,kill-acks,kill-areas,replay,history-backfill}.test.ts',
  'test/postgres/{kill,replicas,simulation}.test.ts',
]
const unitFolders = ['unit', 'contract', 'conformance']
/** Of `npm run test:long` alone, and of the project `unit`: those that take longest. */
const slow = [
  'test/e2e/{large-entries,files-after-kill,fronts}.test.ts',
  'test/unit/sources/{audit/{lookback,outage},history/ends,vault/vault}.test.ts',
  'test/unit/{delivery/{isolation,objects},jobs/history-past}.test.ts',
  'test/unit/{app/{canary,clocks-apart,unread-secrets},cli/run/life,core/large}.test.ts',
]

export default defineConfig({
  test: {
    // One more than there are cores: a quarter of the time, a test waits for a socket, a file or a process.
    maxWorkers: availableParallelism() + 1,
    maxConcurrency: availableParallelism(),
    projects: [
      // `npm test`: unit without what takes longest. Files share a worker's modules: a quarter of the time was loading them again.
      suite('quick', unitFolders, 60_000, { exclude: slow, isolate: false }),
      // The timeout is only a guard against tests that hang: on a busy machine, starting a process takes ten times as long.
      suite('unit', unitFolders, 60_000, { isolate: false }),
      suite('simulation', ['simulation'], 900_000),
      suite('e2e', ['e2e'], 600_000, { exclude: slow }),
      suite('long', [], 900_000, {
        include: [...inRounds, ...slow],
        env: { AUDITFERRY_ROUNDS: 'rest', NODE_COMPILE_CACHE: compiled },
      }),
      suite('integration', ['integration'], 300_000),
      suite('postgres', ['postgres'], 120_000),
      suite('monitoring', ['monitoring'], 120_000),
      suite('image', ['image'], 120_000),
      suite('chart', ['chart'], 60_000),
      suite('cluster', ['cluster'], 300_000),
      suite('browser', ['browser'], 60_000),
    ],
  },
})
