// A trace is recognized among other entries: nothing in one of them may end the reading of all.
import { expect, test } from 'vitest'
import { noticed, traceIn } from '../../../src/canary/traces.ts'
import type { Appended, Source } from '../../../src/contracts/source.ts'
import { audit, entriesOf, part, spec, START_US } from '../../contract/journal-parts.ts'
import { COLUMNS, Entries } from '../../../src/contracts/entries.ts'
import { entriesOf as made } from '../../fakes/lines.ts'

const NONCE = 'n0nce'
const sought = { nonce: NONCE, sentAt: START_US / 1000, madeUs: undefined, user: undefined }

function entry(members: string): Entries {
  const raw = Buffer.from(`{"id":"e1","type":"api:create_query",${members}}`)
  const columns = new Uint32Array(COLUMNS)
  columns.set([0, raw.length, 7, 9, 0, 0, 0, 0])
  return new Entries(raw, 1, columns, Float64Array.of(START_US), ['api:create_query'])
}

test.each([
  ['an object that has no text', `"user_agent":{"toString":1,"valueOf":1,"n":"${NONCE}"}`],
  ['a list', `"user_agent":["${NONCE}"]`],
  ['nothing at all', `"user_agent":null,"n":"${NONCE}"`],
])('a user agent that is %s is no trace, and no error', (_, members) => {
  expect(traceIn('audit', entry(members), sought)).toBeUndefined()
  expect(traceIn('audit', entry(`"user_agent":"x ${NONCE}"`), sought)).toMatchObject({ id: 'e1' })
})

test('an observer may fail: reading continues', async () => {
  const { entries } = part([spec(1)])
  const source: Source = {
    stream: audit,
    plan: () => ({ dueAt: 0, priority: 'live', caughtUp: false }),
    async *read() {
      yield { ...part([spec(1)]), entries, fault: undefined }
      yield { ...part([spec(2)]), entries: entriesOf([spec(2)]), fault: undefined }
    },
  }
  let seen = 0
  const watched = noticed(source, () => {
    seen++
    throw new TypeError('content')
  })
  const parts = watched.read(undefined, new AbortController().signal)
  let read = 0
  for (let next = await parts.next(); !next.done; next = await parts.next({ last: read } as Appended)) read++
  expect([read, seen]).toEqual([2, 2])
})

test('entries that did not land are not shown', async () => {
  const source: Source = {
    stream: audit,
    plan: () => ({ dueAt: 0, priority: 'live', caughtUp: false }),
    async *read() {
      yield { ...part([spec(1)]), fault: undefined }
      yield { ...part([spec(2)]), fault: undefined }
    },
  }
  const shown: number[] = []
  const parts = noticed(source, (_entries, last) => void shown.push(last)).read(
    undefined,
    new AbortController().signal,
  )
  await parts.next()
  await parts.next({} as Appended)
  await parts.next({ last: 9 } as Appended)
  expect(shown).toEqual([9])
})

const PROMPT = 'api:create_query'
const at = (ms: number) => new Date(START_US / 1000 + ms).toISOString().replace('Z', '')
const said = (members: object) => JSON.stringify(members)

test('a trace may be behind others of its kind', () => {
  const others = ['a', 'b'].map((id) => ({ id, type: PROMPT, raw: said({ id, user_agent: 'another' }) }))
  const ours = { id: 'c', type: PROMPT, raw: said({ id: 'c', user: 'us', user_agent: `x ${NONCE}` }) }
  expect(traceIn('audit', made([...others, ours, ...others]), sought)).toEqual({ id: 'c', user: 'us' })
})

test('a query event may be seen before its prompt is answered: two days from sending are near, no more', () => {
  const DAY = 86_400_000
  const found = (ms: number) => {
    const raw = said({ id: 'q', query: `say ${NONCE}` })
    return traceIn('history.query', made([{ id: 'q', time: at(ms), raw }]), sought)?.id
  }
  expect([-2 * DAY - 1, -2 * DAY, 0, 2 * DAY, 2 * DAY + 1].map(found)).toEqual([
    ...[undefined, 'q', 'q', 'q', undefined],
  ])
})

test('a usage event is recognized by our user and the time of the prompt: without either it is not ours', () => {
  const madeUs = { from: START_US, to: START_US + 1_000_000 }
  const found = (members: object, user: string | undefined, ms = 0) =>
    traceIn('history.usage', made([{ id: 'u', time: at(ms), raw: said(members) }]), {
      ...sought,
      madeUs,
      user,
    })?.id
  expect(found({ user: 'us' }, 'us')).toBe('u')
  expect([found({}, undefined), found({ user: 7 }, undefined), found({ user: 'you' }, 'us')]).toEqual([
    ...[undefined, undefined, undefined],
  ])
  expect([-1, 0, 1_000, 1_001].map((ms) => found({ user: 'us' }, 'us', ms))).toEqual([
    ...[undefined, 'u', 'u', undefined],
  ])
  const beforeTheAnswer = traceIn('history.usage', made([{ id: 'u', time: at(0), raw: said({ user: 'us' }) }]), { ...sought, user: 'us' }) // prettier-ignore
  expect(beforeTheAnswer).toBeUndefined()
})

test('a user that is no text is none', () => {
  const raw = said({ id: 'c', user: { name: 'us' }, user_agent: `x ${NONCE}` })
  expect(traceIn('audit', made([{ id: 'c', type: PROMPT, raw }]), sought)).toEqual({
    id: 'c',
    user: undefined,
  })
})
