import { afterEach, expect, test } from 'vitest'
import type { App } from '../../../src/app.ts'
import { secretsIn } from '../../../src/model/secret.ts'
import { acceptAll, openHouse, until } from './house.ts'

let house: ReturnType<typeof openHouse>
let app: App
afterEach(async () => {
  await app.stop()
  house.remove()
})

test('secrets that cannot be read again are told by status and log while all goes on, until they can be', async () => {
  house = openHouse({ receiver: acceptAll })
  const trouble: (string | undefined)[] = [undefined, undefined]
  for (const [i, secret] of secretsIn(house.config).entries()) {
    const value = secret.reveal()
    secret.follow(() => {
      if (trouble[i] !== undefined) throw new Error(trouble[i])
      return value
    })
  }
  app = await house.open(false)
  app.run().catch(() => undefined)
  const status = () => app.board.status()
  const told = () => house.lines.filter(({ sentence }) => sentence.startsWith('A secret can'))
  await until(() => status().sentence.startsWith('All caught up'), 'peace')
  expect(status().warnings).toEqual([])
  trouble[1] = '/run/token: there is no such file'
  await until(() => status().warnings.length === 1, 'the token, which nobody asks for now')
  const message =
    'siem token cannot be read again, and a restart would fail: /run/token: there is no such file'
  expect(status()).toMatchObject({
    ok: true,
    sentence: expect.stringContaining(`${message}; all caught up`) as string,
    warnings: [{ code: 'secret_unread', about: 'siem token', message }],
  })
  trouble[0] = 'no permission'
  await until(() => status().warnings.length === 2, 'the key')
  const asked = house.mock.requests.length
  await until(() => house.mock.requests.length > asked + 1, 'reading with the key in memory')
  expect(status().sentence).toMatch(/^siem token cannot .* \(and 1 more like it\); all caught up/)
  trouble.fill(undefined)
  await until(() => status().warnings.length === 0, 'both back')
  expect(status().sentence).toMatch(/^All caught up/)
  expect(
    told().map(({ sentence, fields }) => [sentence.slice(0, 15), fields['secret'], fields['error']]),
  ).toEqual([
    ['A secret cannot', 'siem token', '/run/token: there is no such file'],
    ['A secret cannot', 'acme api_key', 'no permission'],
    ['A secret can be', 'acme api_key', undefined],
    ['A secret can be', 'siem token', undefined],
  ])
})
