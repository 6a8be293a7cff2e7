// The assistant (specification §2.7, §4.4), sentence by sentence.
import { describe, expect, it } from 'vitest'
import { served } from './served.ts'
import type { Fields, Served } from './served.ts'

const path = '/api/v2/completion'

const models = [
  'alpha-5',
  'alpha-5-1',
  'alpha-5-2',
  'alpha-5-4',
  'alpha-5-4-mini',
  'alpha-5-5',
  'alpha-4-1',
  'beta-opus-4-5',
  'beta-sonnet-4-5',
  'beta-opus-4-6',
  'beta-opus-4-7',
]

function complete({ ask }: Served, fields: Fields) {
  return ask(path, { method: 'POST', body: JSON.stringify(fields), contentType: 'application/json' })
}

function completeForm({ ask }: Served, fields: Readonly<Record<string, string>>, file?: string) {
  const body = new FormData()
  for (const [name, value] of Object.entries(fields)) body.append(name, value)
  if (file !== undefined) body.append('file', new Blob([file]), 'lease.txt')
  return ask(path, { method: 'POST', body })
}

const errorOf = (heard: { status: number; json(): unknown }) => [
  heard.status,
  (heard.json() as Fields)['error'],
]

describe('§2.7 assistant request', () => {
  it('§2.7 prompt: required', async () => {
    const context = await served()
    for (const fields of [{}, { prompt: '' }, { stream: true }])
      expect(errorOf(await complete(context, fields))).toEqual([400, 'Missing prompt parameter'])
    expect(errorOf(await completeForm(context, { mode: 'draft' }))).toEqual([400, 'Missing prompt parameter'])
  })

  it('§2.7 §8 prompt: at most 20,000 characters', async () => {
    const context = await served()
    expect((await complete(context, { prompt: 'é'.repeat(20_000) })).status).toBe(200)
    expect((await complete(context, { prompt: 'é'.repeat(20_001) })).status).toBe(400)
  })

  it('§2.7 §8 prompt: at most 4,000 characters when a file is attached', async () => {
    const context = await served()
    expect((await completeForm(context, { prompt: 'p'.repeat(4000) }, 'text')).status).toBe(200)
    expect((await completeForm(context, { prompt: 'p'.repeat(4001) }, 'text')).status).toBe(400)
    expect((await completeForm(context, { prompt: 'p'.repeat(4001) })).status).toBe(200)
  })

  it('§2.7 stream: false unless given; true gives partial results', async () => {
    const context = await served()
    const whole = await complete(context, { prompt: 'Is the lease assignable?' })
    expect(whole.headers.get('content-type')).toContain('application/json')
    expect((await complete(context, { prompt: 'x', stream: false })).headers.get('content-type')).toContain(
      'application/json',
    )
    const streamed = await complete(context, { prompt: 'Is the lease assignable?', stream: true })
    expect([streamed.status, streamed.headers.get('content-length')]).toEqual([200, null])
    expect(streamed.text).not.toBe(whole.text)
    expect(streamed.text.split('\n\n').length).toBeGreaterThan(3)
    expect((await complete(context, { prompt: 'x', stream: 'perhaps' })).status).toBe(400)
  })

  it('§2.7 mode: optional, `draft` for drafting replies', async () => {
    const context = await served()
    const answers = [{ prompt: 'A' }, { prompt: 'A', mode: 'draft' }].map((fields) =>
      complete(context, fields),
    )
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200])
  })

  it('§2.7 model: optional, a form parameter, one of the allowed slugs', async () => {
    const context = await served()
    for (const model of models) expect((await completeForm(context, { prompt: 'A', model })).status).toBe(200)
    for (const model of ['alpha-6', 'ALPHA-5', 'default'])
      expect((await completeForm(context, { prompt: 'A', model })).status).toBe(400)
  })
})

describe('§4.4 assistant API', () => {
  it('§4.4 completion: POST, and nothing else', async () => {
    const context = await served()
    expect((await complete(context, { prompt: 'A' })).status).toBe(200)
    expect((await context.ask(path)).status).toBe(404)
  })

  it('§1 the prompt comes back with a generated answer', async () => {
    const context = await served()
    const { response } = (await complete(context, { prompt: 'Is the lease assignable?' })).json() as Fields
    expect(response).toEqual(expect.any(String))
  })
})
