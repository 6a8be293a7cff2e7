// A delivery that begins late is stepped, asked and left as the one that it opens.
import { expect, it } from 'vitest'
import { ConnectorError } from '../../../src/core/errors.ts'
import { AfterKeys } from '../../../src/delivery/policy.ts'
import { never } from './quay.ts'

it('what is heard at a stop is heard behind a late beginning too', async () => {
  const heard: AbortSignal[] = []
  const late = new AfterKeys(() => ({
    step: async () => 'worked',
    hearOut: async (signal) => void heard.push(signal),
  }))
  await late.step(never)
  await late.hearOut(never)
  expect(heard).toEqual([never])
})

it('one that never began, or that has nothing to hear, is left at once', async () => {
  const shut = new AfterKeys(() => {
    throw new ConnectorError('misconfigured', 'no key')
  })
  await expect(shut.step(never)).rejects.toThrow('no key')
  await shut.hearOut(never)
  const deaf = new AfterKeys(() => ({ step: async () => 'worked' }))
  await deaf.step(never)
  await deaf.hearOut(never)
})
