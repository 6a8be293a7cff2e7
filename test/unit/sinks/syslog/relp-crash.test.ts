// RELP, cut off at any message: what is sent again, and no more.
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { sinkKinds } from '../../../../src/sinks/index.ts'
import { RELP_WINDOW } from '../../../../src/sinks/syslog/relp.ts'
import { FakeRelp } from '../../../fakes/relp-server.ts'
import { sinkDeps } from '../../../fakes/sink-deps.ts'
import { openRig } from '../../delivery/rig.ts'

const idOf = (message: string) => (JSON.parse(message.slice(message.indexOf('{'))) as { id: string }).id

test.each([0, 1, 127, 128, 300, 999])(
  'a crash after %i of a thousand answers: nothing is missing, and at most a window arrives twice',
  async (silentFrom) => {
    const rig = await openRig(['siem'])
    await rig.append(1_000)
    const fake = new FakeRelp({ silentFrom })
    let dead = false
    /** A process of its own, as far as the receiver can tell. */
    const life = (died: () => boolean) => {
      const connect = () =>
        died() ? Promise.reject(new ConnectorError('unreachable', 'dead')) : fake.connect()
      const options = sinkKinds.syslog.options.parse({ address: 'relp://logs.test:2514' })
      const sink = sinkKinds.syslog.open('siem', options, { ...sinkDeps(), connect })
      return rig.sinkRig('siem', { sink })
    }
    const stuck = life(() => dead)
      .empty()
      .catch(() => undefined)
    for (let turns = 0; fake.seen <= silentFrom && turns < 10_000; turns++)
      await new Promise((resolve) => setImmediate(resolve))
    dead = true
    fake.switches = {}
    await life(() => false).empty()
    const ids = fake.stored.map(idOf)
    fake.cutAll()
    await stuck
    expect(new Set(ids).size).toBe(1_000)
    expect(ids.length - 1_000).toBeLessThanOrEqual(RELP_WINDOW)
  },
)
