// One request of the library over our transport: how long it may take, whatever the server does.
import { expect, it } from 'vitest'
import type { Transport } from '../../../src/model/http.ts'
import { libraryHandler } from '../../../src/sinks/s3/handler.ts'
import { settled, VirtualClock } from '../../simulation/virtual-clock.ts'

const MINUTE = 60_000

it('a server that drips is given up after half an hour, however long it would go on', async () => {
  const clock = new VirtualClock(Date.UTC(2026, 10, 17))
  const beganAt = clock.now()
  async function* drops() {
    while (clock.now() < beganAt + 60 * MINUTE) {
      yield Buffer.from(' ')
      await clock.sleep(MINUTE / 2)
    }
  }
  const send: Transport = () => Promise.resolve({ status: 503, headers: {}, body: drops() })
  const request = { method: 'PUT', protocol: 'https:', hostname: 's3.test', path: '/logs/a', headers: {} }
  let ended: unknown
  const tell = (by: unknown) => (ended ??= { by, at: clock.now() - beganAt })
  void libraryHandler(send, clock).handle(request).then(tell, tell)
  await settled()
  while (clock.advance(beganAt + 90 * MINUTE)) await settled()
  expect(ended).toMatchObject({ by: { code: 'timeout' }, at: 30 * MINUTE })
})
