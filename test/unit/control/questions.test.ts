// The form of each question of the control socket: a valid one is passed on unchanged, and any other is refused before anything handles it.
import { expect, test } from 'vitest'
import { ZodError } from 'zod'
import { questions } from '../../../src/control/questions.ts'
import type { ControlOptions } from '../../../src/control/questions.ts'
import { MAX_LINES } from '../../../src/observability/taps.ts'

type Json = string | number | boolean | readonly Json[] | { readonly [key: string]: Json }
type Form = Readonly<Record<string, Json>>

const stream = { workspace: 'acme', source: 'audit' }
const span = { fromUs: 5, toUs: 9 }
const ids = { ids: [1, 4] }
const page = { limit: 5, after: 4 }
const replayed = { sink: 'siem', startedAt: 7, reads: [{ stream, spans: [span] }] }
const replay = { sink: 'siem', ...span, sources: ['audit'], runAt: 7, dryRun: true, after: 3 }

/** What must be there, and what may be. */
const forms: Readonly<Record<string, readonly [must: Form, may: Form]>> = {
  'POST /dead-letters': [{}, { ...page, ...ids, sink: 'siem' }],
  'POST /dead-letters/raw': [{ id: 7 }, {}],
  'POST /dead-letters/retry': [{}, { ...page, ...ids, sink: 'siem' }],
  'POST /dead-letters/drop': [{}, { ...page, ...ids, sink: 'siem' }],
  'POST /tap': [{ sink: 'siem', limit: 5, waitMs: 100 }, {}],
  'POST /replay': [replay, { workspace: 'acme', leave: [{ stream, fromDay: 1, toDay: 2 }], until: 8 }],
  'POST /stored-days': [{}, { after: 4 }],
  'POST /jobs': [{ kind: 'backfill' }, {}],
  'POST /jobs/backfill': [span, stream],
  'POST /jobs/replay': [replayed, { dryRun: true }],
  'POST /jobs/cancel': [{ kind: 'replay' }, { ...stream, sink: 'siem' }],
  'POST /compare': [{ ...span, job: 'w' }, { workspace: 'acme' }],
  'POST /compare/end': [{ job: 'w' }, {}],
  'POST /counts': [{ fromDay: 1, toDay: 2 }, {}],
  'POST /pending': [{ sink: 'siem' }, { after: 4 }],
  'POST /quarantine': [{}, { ...page, ...ids }],
  'POST /quarantine/raw': [{ id: 7 }, {}],
  'POST /quarantine/drop': [{}, { ...page, ...ids }],
}

/** The least and the most of a number, by its key. A day or an instant may lie before 1970. */
function boundsOf(question: string, key: string): readonly [least: number, most: number] {
  if (key === 'id' || key === 'ids') return [1, Infinity]
  if (key === 'after' || key === 'until') return [0, Infinity]
  if (key === 'waitMs') return [0, 10_000]
  if (key === 'limit') return [1, question === 'POST /tap' ? MAX_LINES : 1000]
  return [-Infinity, Infinity]
}

type Named = readonly [what: string, value: Json]

const isObject = (value: Json): value is Form => typeof value === 'object' && !Array.isArray(value)

/** Each way in which a value may be wrong in one place. */
function wrongs(question: string, value: Json, key = ''): readonly Named[] {
  const bounds = boundsOf(question, key)
  if (typeof value === 'number') {
    const beyond = [bounds[0] - 1, bounds[1] + 1].filter(Number.isFinite)
    return [
      [key, String(value)],
      ...[value + 0.5, 2 ** 53, ...beyond].map((one): Named => [`${key} ${one}`, one]),
    ]
  }
  if (typeof value === 'boolean') return [[key, 'yes']]
  if (typeof value === 'string')
    return [
      [`${key} as a number`, 1],
      ...(/^(source|kind)/.test(key) ? [[`${key} unknown`, 'nosuch'] as const] : []),
    ]
  if (!isObject(value)) {
    const items = value.flatMap((item) => wrongs(question, item, key))
    const tooMany: readonly Named[] =
      key === 'ids' ? [['ids over 1000', Array.from({ length: 1001 }, (_, i) => i + 1)]] : []
    return [
      [`${key} alone`, value[0] ?? 0],
      ...items.map(([what, item]): Named => [what, [item]]),
      ...tooMany,
    ]
  }
  const stray: Named = [`${key} with a stray key`, { ...value, stray: 1 }]
  const inside = Object.entries(value).flatMap(([name, one]) =>
    wrongs(question, one, name).map(([what, wrong]): Named => [what, { ...value, [name]: wrong }]),
  )
  const nested =
    key === ''
      ? []
      : Object.keys(value).map((name): Named => [`${key} without ${name}`, without(value, name)])
  return [stray, ...inside, ...nested]
}

const without = (value: Form, name: string): Form =>
  Object.fromEntries(Object.entries(value).filter(([one]) => one !== name))

/** Answers anything, and keeps the question. */
function anybody() {
  const asked: unknown[] = []
  const part = new Proxy(
    {},
    {
      get:
        () =>
        async (...given: unknown[]) => (asked.push(...given), []),
    },
  )
  const options = {
    journal: part,
    taps: part,
    jobs: part,
    comparing: part,
    retry: async (query: unknown) => (asked.push(query), {}),
  }
  return { asked, options: options as unknown as ControlOptions }
}

async function ask(question: string, form: Json) {
  const { asked, options } = anybody()
  // An invalid form is thrown at once, and not by the promise.
  const error = await (async () => questions.get(question)?.(options, form))().then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return { asked, error }
}

test('every question with arguments is tested here', () => {
  const taking = [...questions.keys()].filter((name) => name.startsWith('POST'))
  expect(taking.toSorted()).toEqual(Object.keys(forms).toSorted())
})

test.each(Object.entries(forms))(
  '%s is accepted with all optional arguments, and with only the required ones',
  async (question, [must, may]) => {
    for (const form of [must, { ...must, ...may }]) {
      const { asked, error } = await ask(question, form)
      expect(error).not.toBeInstanceOf(ZodError)
      expect(asked).not.toEqual([])
    }
    for (const [key, value] of Object.entries({ ...must, ...may })) {
      if (typeof value !== 'number') continue
      for (const bound of boundsOf(question, key).filter(Number.isFinite))
        expect(
          (await ask(question, { ...must, ...may, [key]: bound })).error,
          `${key} ${bound}`,
        ).not.toBeInstanceOf(ZodError)
    }
  },
)

test.each(Object.entries(forms))(
  '%s is refused with an unknown key, a missing key, a wrong type, an unknown name or a number out of its bounds, and nothing handles it',
  async (question, [must, may]) => {
    const missing = Object.keys(must).map((name): Named => [`without ${name}`, without(must, name)])
    for (const [what, form] of [
      ...wrongs(question, { ...must, ...may }),
      ...missing,
      ['a list', []] as const,
    ]) {
      const { asked, error } = await ask(question, form)
      expect(error, what).toBeInstanceOf(ZodError)
      expect(asked, what).toEqual([])
    }
  },
)

test('a page without a limit is of a thousand from the first', async () => {
  for (const question of ['POST /dead-letters', 'POST /quarantine'])
    expect((await ask(question, {})).asked).toEqual([{ limit: 1000, after: 0 }])
})
