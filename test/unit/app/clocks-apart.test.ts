// A whole app whose clock and the API’s disagree: what it reports.
import { afterEach, expect, test } from 'vitest'
import type { App } from '../../../src/app/app.ts'
import type { Transport } from '../../../src/contracts/platform.ts'
import { openDaemonRig, until } from './daemon-rig.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

let daemonRig: ReturnType<typeof openDaemonRig>
let app: App
afterEach(async () => {
  await app.stop()
  daemonRig.remove()
})

test.each([
  ['40 days ahead of', 40 * DAY_MS, ['audit']],
  ['11 min behind', -11 * MINUTE_MS, ['audit', 'history.usage']],
])(
  'a clock that is %s the API’s is reported with the difference, and nothing counts as caught up by it',
  async (reported, aheadMs, known) => {
    let apartMs = aheadMs
    const api: Transport = async (request, signal) => {
      const { headers, ...rest } = await daemonRig.mock.transport(request, signal)
      return {
        ...rest,
        headers: { ...headers, date: new Date(daemonRig.clock.now() - apartMs).toUTCString() },
      }
    }
    const history = { usage: true, start: '1d', interval: '1m' }
    daemonRig = openDaemonRig({ api, workspace: { history } })
    app = await daemonRig.open(false)
    app.run().catch(() => undefined)
    const sentence = () => app.registry.status().summary
    const sources = () => app.registry.status().workspaces.flatMap((one) => one.sources)
    const caughtUp = () =>
      sources().flatMap(({ name, caught_up_at }) => (caught_up_at === null ? [] : [name]))
    const isRead = () => sources().every(({ last_success_at: at, state }) => at !== null && state === 'idle')
    // The history of future days is empty: what lies before them is unknown.
    await until(() => isRead() && String(caughtUp()) === String(known), 'all that is found by such a clock')
    await until(
      () => app.registry.status().sinks.every(({ pending_entries: pending }) => pending === 0),
      'delivery',
    )
    expect(app.registry.status()).toMatchObject({
      ok: true,
      warnings: [{ code: 'clock_apart', about: 'acme' }],
    })
    expect(sentence()).toMatch(
      new RegExp(
        `^The clock of this machine is ${reported} that of acme’s API, .*: check this machine's clock first`,
      ),
    )
    expect(sentence()).not.toMatch(/caught up/i)
    // A few minutes make nothing wrong.
    apartMs = aheadMs > 0 ? 9 * MINUTE_MS : 0
    await until(() => sentence().startsWith('All caught up'), 'peace')
    expect(caughtUp()).toEqual(['audit', 'history.usage'])
    expect(app.registry.status().warnings).toEqual([])
  },
)
