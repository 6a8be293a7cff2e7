// How far our clock and the server’s are apart, by the dates of its answers.
import { expect, test } from 'vitest'
import type { HttpReply, Transport } from '../../../src/contracts/platform.ts'
import type { Log } from '../../../src/core/log.ts'
import { warningOfClocks } from '../../../src/app/access.ts'

const NOW = Date.parse('2026-11-21T10:00:00Z')
const request = { method: 'GET', url: 'https://api.example.com/', headers: {} } as const

async function* nothing() {
  yield* []
}

function openAsker(nowAt = () => NOW) {
  const reported: string[] = []
  const heard: (number | undefined)[] = []
  let date: string | undefined
  const say = (level: string) => (sentence: string, fields?: object) =>
    void reported.push(`${level} ${sentence.slice(0, 41)} ${JSON.stringify(fields ?? {})}`)
  const log: Log = {
    ...{ debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') },
    with: () => log,
  }
  const send: Transport = async () =>
    ({ status: 200, headers: date === undefined ? {} : { date }, body: nothing() }) satisfies HttpReply
  const asking = warningOfClocks(send, { now: nowAt }, log, (aheadMs) => heard.push(aheadMs))
  const ask = async (serverAt: number | undefined) => {
    date = serverAt === undefined ? undefined : new Date(serverAt).toUTCString()
    expect((await asking(request, AbortSignal.timeout(1000))).status).toBe(200)
  }
  return { reported, heard, ask }
}

test.each([
  [365 * 24 * 60, -365 * 24 * 60],
  [-11, 11],
])('a server %i min ahead is logged once, and once more when the clocks agree', async (ahead, told_) => {
  const { reported, heard, ask } = openAsker()
  await ask(NOW + ahead * 60_000)
  await ask(NOW + ahead * 60_000)
  await ask(undefined)
  expect(reported).toEqual([`warn The clocks of this machine and of the API {"minutesAhead":${told_}}`])
  await ask(NOW)
  await ask(NOW)
  expect(reported.slice(1)).toEqual(['info The clocks of this machine and of the API {}'])
  expect(heard).toEqual([-ahead * 60_000, -ahead * 60_000, undefined, undefined])
})

test('a few minutes of difference are not logged, nor is a server without a Date', async () => {
  const { reported, ask } = openAsker()
  for (const at of [NOW - 540_000, undefined, NOW + 540_000, NaN]) await ask(at)
  expect(reported).toEqual([])
})
