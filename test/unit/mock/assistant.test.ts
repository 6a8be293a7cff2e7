// The assistant area: its fields, its answers, and the traces of a call in audit log and history.
import { describe, expect, it } from 'vitest'
import type { Switches } from '../../../src/mock/switches.ts'
import { call, history } from './caller.ts'
import type { Row } from './caller.ts'
import { START, context } from './stage.ts'

const limits = { assistant: 0, history: 0 }
const json = 'application/json'
const urlencoded = 'application/x-www-form-urlencoded'

function asking(switches: Partial<Switches> = {}) {
  const { mock, clock } = context({ limits, switches: { self_audit: 'all', ...switches } })
  const post = (type: string, body: string | Uint8Array, key?: string) =>
    call(mock, '/api/v2/completion', { method: 'POST', type, body, ...(key === undefined ? {} : { key }) })
  const asJson = (body: object) => post(json, JSON.stringify(body))
  const asForm = (fields: Record<string, string>) => post(urlencoded, new URLSearchParams(fields).toString())
  /** With a file in the form field of that name. */
  const withFile = async (fields: Record<string, string>, field = 'file') => {
    const form = new FormData()
    for (const [name, value] of Object.entries(fields)) form.append(name, value)
    form.append(field, new Blob(['%PDF-1.7']), 'draft (2).pdf')
    const request = new Request('http://x.invalid', { method: 'POST', body: form })
    return post(request.headers.get('content-type') ?? '', new Uint8Array(await request.arrayBuffer()))
  }
  return { mock, clock, post, asJson, asForm, withFile }
}

const messageOf = ({ status, text }: { status: number; text: string }) => [
  status,
  (JSON.parse(text) as { error: string }).error,
]

describe('a completion', () => {
  it('takes its fields as JSON, as a form, and as a form with a file', async () => {
    const { asJson, asForm, withFile } = asking()
    const fields = { prompt: 'Is clause 3 void? – §§', mode: 'draft', model: 'beta-opus-4-7' }
    for (const reply of [await asJson(fields), await asForm(fields), await withFile(fields)]) {
      expect(reply.status).toBe(200)
      const { response } = JSON.parse(reply.text) as { response: string }
      expect(response).toContain('Is clause 3 void? – §§')
    }
  })

  it('takes only the kind of body that its switch allows', async () => {
    const { asJson, asForm, mock } = asking({ assistant_accepts: 'json' })
    const statuses = async () => [
      (await asJson({ prompt: 'x' })).status,
      (await asForm({ prompt: 'x' })).status,
    ]
    expect(await statuses()).toEqual([200, 400])
    mock.setSwitches({ assistant_accepts: 'form' })
    expect(await statuses()).toEqual([400, 200])
  })

  it.each([
    ['nothing', {}, 'Missing prompt parameter'],
    ['an empty prompt', { prompt: '' }, 'Missing prompt parameter'],
    ['a prompt that is not a string', { prompt: 7 }, 'Missing prompt parameter'],
    ['a prompt over the limit', { prompt: 'x'.repeat(20_001) }, 'Prompt exceeds 20000 characters'],
    ['an unknown model', { prompt: 'x', model: 'gamma-1' }, 'Invalid model parameter'],
    ['a stream that is neither true nor false', { prompt: 'x', stream: 'often' }, 'Invalid stream parameter'],
    ['a mode that is not a string', { prompt: 'x', mode: {} }, 'Invalid mode parameter'],
  ])('with %s is refused', async (_, body, message) => {
    const { asJson, mock } = asking()
    expect(messageOf(await asJson(body))).toEqual([400, message])
    // A refused prompt leaves no audit entry.
    expect(mock.entries()).toEqual([])
  })

  it('a body that is neither JSON nor a form counts as a missing prompt', async () => {
    const { post } = asking()
    for (const [type, body] of [
      [json, '{"prompt":'],
      [json, '["prompt"]'],
      ['text/plain', 'prompt=x'],
      ['multipart/form-data; boundary=x', '--y\r\n'],
    ] as const)
      expect(messageOf(await post(type, body))).toEqual([400, 'Missing prompt parameter'])
  })

  it('a prompt may have 20,000 characters, or 4,000 with a file; characters are not bytes', async () => {
    const { asJson, withFile } = asking()
    expect((await asJson({ prompt: '🦀'.repeat(20_000) })).status).toBe(200)
    expect((await withFile({ prompt: 'ß'.repeat(4000) })).status).toBe(200)
    const refused = await withFile({ prompt: 'ß'.repeat(4001) })
    expect(messageOf(refused)).toEqual([400, 'Prompt exceeds 4000 characters with a file attached'])
  })

  it('the form field of the file may have another name; a file in any other field is ignored', async () => {
    const { withFile } = asking({ assistant_file_field: 'document' })
    const prompt = 'x'.repeat(5000)
    expect((await withFile({ prompt }, 'document')).status).toBe(400)
    expect((await withFile({ prompt }, 'file')).status).toBe(200)
  })

  it('answers in the body format of its switch', async () => {
    const { asJson, mock } = asking()
    const answers = []
    for (const assistant_body of ['response', 'event', 'text'] as const) {
      mock.setSwitches({ assistant_body })
      answers.push(await asJson({ prompt: 'Who is bound?' }))
    }
    const [response, event, text] = answers
    expect(Object.keys(JSON.parse(response?.text ?? '') as Row)).toEqual(['response'])
    expect(JSON.parse(event?.text ?? '')).toMatchObject({ query: 'Who is bound?', access_point: 'API' })
    expect(text?.headers['content-type']).toContain('text/plain')
    expect(text?.text).toContain('Who is bound?')
  })

  it('a streamed answer, joined, equals the response in the history', async () => {
    const { asJson, mock } = asking()
    const put: Record<string, (text: string) => string> = {
      sse: (text) =>
        text
          .trimEnd()
          .split('\n\n')
          .slice(0, -1)
          .map((line) => (JSON.parse(line.replace(/^data: /, '')) as { response: string }).response)
          .join(''),
      ndjson: (text) =>
        text
          .trimEnd()
          .split('\n')
          .map((line) => (JSON.parse(line) as { response: string }).response)
          .join(''),
      text: (text) => text,
    }
    for (const assistant_stream_body of ['sse', 'ndjson', 'text'] as const) {
      mock.setSwitches({ assistant_stream_body })
      const { text, headers } = await asJson({ prompt: 'Who is bound? 🦀', stream: true })
      expect(headers['content-length']).toBeUndefined()
      if (assistant_stream_body === 'sse') expect(text.endsWith('data: [DONE]\n\n')).toBe(true)
      const last = mock.history().at(-1)
      const event = JSON.parse(Buffer.from(last?.versions[0]?.raw ?? []).toString()) as Row
      expect(put[assistant_stream_body]?.(text)).toBe(event['response'])
    }
  })
})

describe('the traces of a completion', () => {
  it('are an audit entry, a usage event and a query event of the key’s user in the same second', async () => {
    const { asJson, mock, clock } = asking()
    await asJson({ prompt: 'nonce-4711', mode: 'draft', model: 'alpha-5' })
    const [entry] = mock.entries()
    expect(JSON.parse(Buffer.from(entry?.raw ?? []).toString())).toMatchObject({
      type: 'api:create_query',
      user: 'siem@acme.example',
      user_agent: 'tester/1',
      timestamp: '2026-11-17T10:00:00.000000',
    })
    clock.pass(1000)
    for (const path of ['v2/history/usage', 'v2/history/query']) {
      const [event, ...more] = await history(mock, path, START, START + 1000)
      expect(more).toEqual([])
      expect(event).toMatchObject({
        utc_time: '2026-11-17 10:00:00',
        user: 'siem@acme.example',
        product_surface_area: 'ASSISTANT',
        access_point: 'API',
        metadata: { mode: 'draft', model: 'alpha-5' },
        ...(path.endsWith('query') ? { query: 'nonce-4711' } : {}),
      })
    }
  })

  it('become visible after the delay of their switch', async () => {
    const { asJson, mock, clock } = asking({ self_audit_after: 60_000, assistant_visible_after: 300_000 })
    await asJson({ prompt: 'x' })
    const seen = async () => {
      const { status } = await call(mock, '/api/v1/logs/audit/latest?log_type=api:create_query')
      return [status, (await history(mock, 'v2/history/usage', START, START + 1000)).length]
    }
    expect(await seen()).toEqual([404, 0])
    clock.set(START + 60_000)
    expect(await seen()).toEqual([200, 0])
    clock.set(START + 300_000)
    expect(await seen()).toEqual([200, 1])
  })

  it('are in the history even if calls are not audited', async () => {
    const { asJson, mock, clock } = asking({ self_audit: 'off' })
    await asJson({ prompt: 'x' })
    clock.pass(1000)
    expect((await call(mock, '/api/v1/logs/audit/latest')).status).toBe(404)
    expect(await history(mock, 'v1/history/query', START, START + 1000)).toMatchObject([{ query: 'x' }])
  })

  it('name a generic agent if the switch says so', async () => {
    const { asJson, mock } = asking({ user_agent: 'generic' })
    await asJson({ prompt: 'x' })
    expect(Buffer.from(mock.entries()[0]?.raw ?? []).toString()).toContain('"user_agent":"api-client"')
  })
})

describe('limits and errors of a completion', () => {
  it('the 21st request within a minute answers 429', async () => {
    const { mock } = context()
    const post = () =>
      call(mock, '/api/v2/completion', { method: 'POST', type: json, body: '{"prompt":"x"}' })
    for (let n = 0; n < 20; n++) expect((await post()).status).toBe(200)
    expect(messageOf(await post())).toEqual([429, 'Rate limit exceeded'])
  })

  it('a wrong key and an error have their own messages', async () => {
    const { post, mock } = asking()
    expect(messageOf(await post(json, '{"prompt":"x"}', 'wrong'))).toEqual([401, 'Invalid API key provided'])
    mock.setFault('error_500', 1)
    expect(messageOf(await post(json, '{"prompt":"x"}'))).toEqual([500, 'An internal error occurred'])
  })

  it('another method answers 404', async () => {
    const { mock } = asking()
    expect((await call(mock, '/api/v2/completion')).status).toBe(404)
  })

  it('a body over the limit is refused', async () => {
    const { mock } = context({ maxBodyBytes: 1000 })
    const body = JSON.stringify({ prompt: 'x'.repeat(1000) })
    const reply = await call(mock, '/api/v2/completion', { method: 'POST', type: json, body })
    expect(messageOf(reply)).toEqual([413, 'Request body too large'])
  })
})
