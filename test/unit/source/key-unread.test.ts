import { expect, test } from 'vitest'
import type { HttpReply } from '../../../src/model/http.ts'
import { Secret } from '../../../src/model/secret.ts'
import { tellingUnread } from '../../../src/source/key-unread.ts'

const request = { method: 'GET', url: 'https://api.example.com/', headers: {} } as const

async function* nothing() {
  yield* []
}

test('a key that cannot be read again is told once for each reason, and once when it can be', async () => {
  const told: string[] = []
  let trouble: string | undefined
  const key = new Secret('planted-key', () => {
    if (trouble !== undefined) throw new Error(trouble)
    return 'planted-key'
  })
  const say = (level: string) => (sentence: string, fields?: object) =>
    void told.push(`${level} ${sentence.slice(0, 17)} ${JSON.stringify(fields ?? {})}`)
  const reply = (): HttpReply => ({ status: 200, headers: {}, body: nothing() })
  const send = tellingUnread(async () => reply(), key, { info: say('info'), warn: say('warn') })
  for (const next of [undefined, 'gone', 'gone', 'no permission', undefined, undefined]) {
    trouble = next
    key.fresh()
    expect((await send(request, new AbortController().signal)).status).toBe(200)
  }
  expect(told).toEqual([
    'warn api_key cannot be {"error":"gone"}',
    'warn api_key cannot be {"error":"no permission"}',
    'info api_key can be re {}',
  ])
})
