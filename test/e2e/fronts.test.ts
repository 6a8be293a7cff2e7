// Fronts between the program and API, HEC and S3, over real sockets: interim answers before the final ones, and a load balancer with one bad node behind kept connections.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openFront } from '../fakes/front.ts'
import type { Front, FrontOptions } from '../fakes/front.ts'
import { FakeS3 } from '../fakes/s3.ts'
import { openS3Server } from '../fakes/s3-server.ts'
import { buildProgram } from './built.ts'
import type { Built } from './built.ts'
import { startChild } from './child.ts'
import { judge } from './judge.ts'
import { openStage } from './stage.ts'

const ENTRIES = 500

let built: Built
beforeAll(async () => {
  built = await buildProgram()
})
afterAll(() => built.remove())

interface Behind {
  readonly api?: FrontOptions
  readonly hec?: FrontOptions
  readonly s3?: FrontOptions
}

/** All entries through fronts, in one run to its end. */
async function runBehind(behind: Behind) {
  const bucket = new FakeS3()
  const server = await openS3Server(bucket)
  const fronts: Record<string, Front> = {}
  const before = async (name: keyof Behind, url: string): Promise<string> => {
    const front = await openFront(url, behind[name] ?? {})
    fronts[name] = front
    onTestFinished(() => front.close())
    return front.url
  }
  onTestFinished(() => server.close())
  const endpoint = await before('s3', server.url)
  const stage = await openStage({
    traffic: { backlog: ENTRIES, entriesPerHour: 0 },
    switches: { self_audit: 'off' },
    batchEntries: 100,
    front: before,
    further: [
      {
        ...{ name: 'bucket', type: 's3', bucket: 'logs', prefix: 'audit', region: 'eu-central-1', endpoint },
        ...{ force_path_style: true, access_key_id: 'access', secret_access_key: 'secret' },
        rotate: { max_age: '1s' },
      },
    ],
  })
  onTestFinished(() => stage.close())
  const child = startChild([built.main, 'run', '--once', '--timeout', '90s', '--config', stage.config])
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await child.ended
  })
  const { code } = await child.ended
  const faults = judge(stage, { mayRepeat: 0 })
  return { code, faults, objects: new Set(bucket.lines).size, fronts, stderr: child.stderr() }
}

const whole = { code: 0, faults: [], objects: ENTRIES }

test.each([[[100]], [[102]], [[103]], [[100, 102, 103, 100]]] as const)(
  'interim answers %j before the final ones of API, HEC and S3 are skipped, and each entry arrives once',
  async (interim) => {
    const { stderr, fronts, ...ran } = await runBehind({
      api: { interim },
      hec: { interim },
      s3: { interim },
    })
    expect(Object.keys(fronts).sort()).toEqual(['api', 'hec', 's3'])
    expect(ran, stderr).toEqual(whole)
  },
)

test.each([
  ['api', 429],
  ['api', 503],
  ['hec', 429],
  ['hec', 502],
  ['s3', 503],
  // A page of its own.
  ['api', 200],
] as const)(
  'before %s, a new connection avoids a bad node that answers %i behind a load balancer',
  async (name, badNode) => {
    const { stderr, fronts, ...ran } = await runBehind({ [name]: { badNode } })
    expect(ran, stderr).toEqual(whole)
    const asked = fronts[name]?.connections ?? []
    // The bad node was met.
    expect(asked[0]).toBeGreaterThan(0)
  },
)
