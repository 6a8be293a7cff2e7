// A mock with many workspaces, for the benchmark of many workspaces: entries come when the parent says so. Needs an IPC channel.
import { listenMock } from '../src/mock/listen.ts'
import { openMock } from '../src/mock/mock.ts'
import { systemClock } from '../src/platform/clock.ts'

/** What the parent says. */
export interface Told {
  /** entries a second of each workspace; 0 for none */
  readonly perSecond?: number
  /** so many at once in the first workspace */
  readonly burst?: number
}

const STEP_MS = 100

const [, , count = '1', backlog = '0'] = process.argv
const names = Array.from({ length: Number(count) }, (_, i) => `w${i}`)
const mock = openMock({
  clock: systemClock,
  workspaces: names.map((name) => ({ name, keys: [{ key: `${name}-key` }] })),
  traffic: { entriesPerHour: 0, backlog: Number(backlog) },
})
const { url } = await listenMock(mock, { port: 0, host: '127.0.0.1' })

let perSecond = 0
let due = 0
let turn = 0
setInterval(() => {
  due += (perSecond * names.length * STEP_MS) / 1000
  for (; due >= 1; due--) mock.add({}, names[turn++ % names.length])
}, STEP_MS)
process.on('message', (reported: Told) => {
  perSecond = reported.perSecond ?? perSecond
  for (let i = reported.burst ?? 0; i > 0; i--) mock.add({}, names[0])
})
process.once('disconnect', () => process.exit(0))
process.send?.({ url })
