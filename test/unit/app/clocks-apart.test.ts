import { afterEach, expect, test } from 'vitest'
import type { App } from '../../../src/app.ts'
import type { Transport } from '../../../src/model/http.ts'
import { openHouse, until } from './house.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

let house: ReturnType<typeof openHouse>
let app: App
afterEach(async () => {
  await app.stop()
  house.remove()
})

test.each([
  ['40 days ahead of', 40 * DAY_MS],
  ['11 min behind', -11 * MINUTE_MS],
])(
  'a clock that is %s the API’s is told by how much, and nothing is called caught up by it',
  async (told, aheadMs) => {
    let apartMs = aheadMs
    const api: Transport = async (request, signal) => {
      const { headers, ...rest } = await house.mock.transport(request, signal)
      return { ...rest, headers: { ...headers, date: new Date(house.clock.now() - apartMs).toUTCString() } }
    }
    const history = { usage: true, start: '1d', interval: '1m' }
    house = openHouse({ api, workspace: { history } })
    app = await house.open(false)
    app.run().catch(() => undefined)
    const sentence = () => app.board.status().sentence
    const isRead = () => app.board.status().workspaces.every(({ sources }) => sources.every((one) => one.caught_up_at !== null)) // prettier-ignore
    await until(isRead, 'all that is found by such a clock')
    await until(() => app.board.status().sinks.every(({ owed_entries: owed }) => owed === 0), 'delivery')
    expect(app.board.status()).toMatchObject({ ok: true, warnings: [{ code: 'clock_apart', about: 'acme' }] })
    expect(sentence()).toMatch(
      new RegExp(`^The clock of this machine is ${told} that of acme’s API, .*: check this one first`),
    )
    expect(sentence()).not.toMatch(/caught up/i)
    // Of a few minutes nothing comes out wrong.
    apartMs = aheadMs > 0 ? 9 * MINUTE_MS : 0
    await until(() => sentence().startsWith('All caught up'), 'peace')
    expect(app.board.status().warnings).toEqual([])
  },
)
