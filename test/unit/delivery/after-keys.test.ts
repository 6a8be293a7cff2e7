// A delivery that opens late is stepped, asked and closed like the delivery that it opens.
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import { AfterKeys } from '../../../src/delivery/policy.ts'
import { never } from './rig.ts'

it('confirmations that arrive at a stop also reach a delivery that opened late', async () => {
  const heard: AbortSignal[] = []
  const late = new AfterKeys(() => ({
    step: async () => 'worked',
    awaitConfirmations: async (signal) => void heard.push(signal),
  }))
  await late.step(never)
  await late.awaitConfirmations(never)
  expect(heard).toEqual([never])
})

it('a delivery that never opened, or that awaits no confirmation, closes at once', async () => {
  const shut = new AfterKeys(() => {
    throw new ConnectorError('misconfigured', 'no key')
  })
  await expect(shut.step(never)).rejects.toThrow('no key')
  await shut.awaitConfirmations(never)
  const deaf = new AfterKeys(() => ({ step: async () => 'worked' }))
  await deaf.step(never)
  await deaf.awaitConfirmations(never)
})
