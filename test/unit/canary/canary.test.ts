// The canary, step by step on a virtual clock: each stage measured, a missing one reported once, a restart in between, disabled sources left out.
import { expect, test } from 'vitest'
import { Canary, type CanaryOptions, type CanaryQuestion } from '../../../src/canary/canary.ts'
import type { TraceSource } from '../../../src/canary/traces.ts'
import { ConnectorError } from '../../../src/core/errors.ts'
import type { CanaryTrace, CanaryReporter } from '../../../src/contracts/reporter.ts'
import { entriesOf, type MadeEntry } from '../../fakes/lines.ts'
import { SourceNotes } from '../../fakes/reporters.ts'
import { VirtualClock } from '../../simulation/virtual-clock.ts'
import { never, openRig, START } from '../delivery/rig.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const USER = 'svc@example.com'

const nameOf = ({ stage, sink }: CanaryTrace) => (sink === undefined ? stage : `${stage} ${sink}`)

class Notes implements CanaryReporter {
  readonly reported: string[] = []
  lacking: readonly string[] = []
  wholes: number[] = []
  seen(trace: CanaryTrace, ms: number): void {
    this.reported.push(`${nameOf(trace)} ${ms / 1000}`)
  }
  missing(traces: readonly CanaryTrace[]): void {
    this.lacking = traces.map(nameOf)
  }
  complete(at: number): void {
    this.wholes.push(at)
  }
}

const all: readonly TraceSource[] = ['audit', 'history.usage', 'history.query']

async function openPerch(more: Partial<CanaryOptions> = {}) {
  const rig = await openRig(['siem', 'archive'])
  const { clock, journal, log } = rig
  const asked: CanaryQuestion[] = []
  let answer = async (): Promise<number | undefined> => clock.now() + 2_000
  const perch = {
    ...{ rig, clock, journal, log, asked },
    reporter: new SourceNotes(),
    notes: new Notes(),
    canary: undefined as unknown as Canary,
    /** The process dies and restarts. */
    restart(changed: Partial<CanaryOptions> = {}) {
      perch.reporter = new SourceNotes()
      perch.notes = new Notes()
      perch.canary = new Canary({
        ...{ workspace: 'acme', intervalMs: HOUR, boundMs: 105 * MINUTE, sources: all },
        sinks: [
          { name: 'siem', source: 'audit' },
          { name: 'archive', source: 'history.usage' },
        ],
        ask: async (question) => {
          asked.push(question)
          return answer()
        },
        ready: () => Promise.resolve(true),
        ...{ journal, reporter: perch.reporter, canary: perch.notes, log, clock, random: Math.random },
        ...more,
        ...changed,
      })
    },
    answers(next: typeof answer) {
      answer = next
    },
    step: () => perch.canary.step(never),
    pass: (ms: number) => void clock.advance(clock.now() + ms),
    get nonce() {
      return /canary (c[0-9a-f]{20})$/.exec(asked.at(-1)?.mark ?? '')?.[1] ?? expect.fail('no nonce')
    },
    /** A page is read and kept, and shown. */
    async read(source: TraceSource, ...made: readonly (MadeEntry & { readonly of?: object })[]) {
      const entries = entriesOf(
        made.map(({ of, ...one }) => (of ? { ...one, raw: JSON.stringify({ ...of, id: one.id }) } : one)),
      )
      const stream = { workspace: 'acme', source } as const
      const rest = { quarantined: [], findings: [], headUs: undefined, cursor: undefined, gaps: 0 }
      const appended = await journal.append({ stream, entries, ...rest })
      perch.canary.notice(source, entries, appended.last ?? expect.fail('no sequence number'))
    },
    time: (afterMs = 0) => new Date(START + afterMs).toISOString().replace('Z', ''),
    audit: () => ({
      id: `audit-${asked.length}`,
      type: 'api:create_query',
      of: { user: USER, user_agent: `auditferry/1 (instance 0; canary ${perch.nonce})` },
    }),
    async ack(sink: string) {
      const last = journal.stats().sinks.find((one) => one.sink === sink) ?? expect.fail()
      const through = last.position + last.pendingEntries
      await journal.ack(sink, { first: last.position + 1, through, rejected: [] })
    },
  }
  perch.restart()
  return perch
}

test('each stage is measured from the moment the prompt was sent, and a complete round is reported with its time', async () => {
  const perch = await openPerch()
  expect(await perch.step()).toBe(0)
  expect(perch.asked).toHaveLength(1)
  expect(perch.asked[0]?.prompt).toContain(perch.nonce)
  perch.pass(MINUTE)
  await perch.read('audit', { id: 'x', type: 'auth:login' }, perch.audit())
  expect(await perch.step()).toBe(1_000)
  perch.pass(MINUTE)
  await perch.ack('siem')
  await perch.step()
  const event = { time: perch.time(1_000), type: 'ASSISTANT' }
  await perch.read('history.usage', { id: 'u', ...event, of: { user: USER } })
  perch.pass(MINUTE)
  await perch.read('history.query', { id: 'q', ...event, of: { user: USER, query: `say ${perch.nonce}` } })
  expect(await perch.step()).toBe(1_000)
  await perch.ack('archive')
  expect(await perch.step()).toBe(HOUR - 3 * MINUTE)
  expect(perch.notes.reported).toEqual([
    ...['request 0', 'audit 60', 'delivered siem 120'],
    ...['usage 120', 'query 180', 'delivered archive 180'],
  ])
  expect([perch.notes.wholes, perch.notes.lacking]).toEqual([[START + 3 * MINUTE], []])
  expect(perch.reporter.successes).toBe(2)
})

test('one prompt per interval, each with a nonce of its own', async () => {
  const perch = await openPerch({ sources: [], sinks: [] })
  for (let hours = 0; hours < 5; hours++) {
    await perch.step()
    const waitMs = await perch.step()
    expect(waitMs).toBe(HOUR)
    perch.pass(waitMs)
  }
  expect(new Set(perch.asked.map(({ mark }) => mark)).size).toBe(5)
})

test('a stage that misses its deadline is logged once and shown until a round is complete, and the next prompt goes out', async () => {
  const perch = await openPerch({
    sinks: [{ name: 'siem', source: 'audit' }],
    sources: ['audit', 'history.usage'],
  })
  await perch.step()
  const bound = 45 * MINUTE + HOUR
  expect(await perch.step()).toBe(bound)
  perch.pass(bound - 1)
  await perch.step()
  expect(perch.notes.lacking).toEqual([])
  perch.pass(1)
  // Its interval is over by now: the next goes out at once.
  expect(await perch.step()).toBe(0)
  expect(perch.notes.lacking).toEqual(['audit', 'usage', 'delivered siem'])
  expect(perch.asked).toHaveLength(2)
  const error = perch.reporter.errors.at(-1)
  expect(error?.message).toContain('missing audit, usage, delivered siem')
  expect(error?.message).not.toContain(perch.nonce)
  const warnings = () =>
    perch.log.lines.filter((line) => JSON.stringify(line).includes('did not arrive everywhere'))
  expect(warnings()).toHaveLength(1)
  expect(perch.reporter.states.at(-1)).toBe('failing')
  expect(perch.reporter.successes).toBe(1)

  await perch.read('audit', perch.audit())
  await perch.read('history.usage', { id: 'u', time: perch.time(bound), of: { user: USER } })
  await perch.ack('siem')
  await perch.step()
  expect(perch.notes.lacking).toEqual([])
  expect(perch.notes.wholes).toHaveLength(1)
  expect(perch.reporter.successes).toBe(2)
  expect(warnings()).toHaveLength(1)
})

test('a restart in between loses no stage: earlier ones are reported again, later ones measured from the same moment', async () => {
  const perch = await openPerch({
    sources: ['audit', 'history.usage'],
    sinks: [{ name: 'siem', source: 'audit' }],
  })
  await perch.step()
  const { nonce } = perch
  perch.pass(MINUTE)
  await perch.read('audit', perch.audit())
  await perch.step()
  perch.pass(MINUTE)
  perch.restart()
  await perch.ack('siem')
  await perch.step()
  expect(perch.notes.reported.toSorted()).toEqual(['audit 60', 'delivered siem 120', 'request 0'])
  // The user from the audit entry is still known.
  await perch.read('history.usage', { id: 'u', time: perch.time(), of: { user: USER } })
  await perch.step()
  expect(perch.notes.reported).toContain('usage 120')
  expect([perch.nonce, perch.asked.length]).toEqual([nonce, 1])
  perch.restart()
  expect(await perch.step()).toBe(HOUR - 2 * MINUTE)
  expect(perch.notes.wholes).toEqual([START + 2 * MINUTE])
})

test('after a restart the status shows when the last prompt was answered and completed, and when the next is due', async () => {
  const perch = await openPerch({ sources: ['audit'], sinks: [] })
  await perch.step()
  expect(perch.reporter.recalls).toEqual([])
  perch.pass(MINUTE)
  await perch.read('audit', perch.audit())
  await perch.step()
  perch.pass(MINUTE)
  perch.restart()
  await perch.step()
  expect(perch.reporter.recalls).toEqual([{ readAt: START, caughtUpAt: START + MINUTE, gapAt: 0 }])
  expect(perch.reporter.triesInMs).toEqual([58 * MINUTE])
})

test('an unanswered prompt shows when the next is due; one that waits for the sources shows nothing', async () => {
  const perch = await openPerch({ ready: () => Promise.resolve(false) })
  await perch.step()
  expect([perch.reporter.triesInMs, perch.reporter.states]).toEqual([[], ['idle']])
  perch.restart({ ready: () => Promise.resolve(true) })
  perch.answers(() => new Promise(() => undefined))
  void perch.step()
  for (let i = 0; i < 100 && perch.asked.length === 0; i++) await new Promise(setImmediate)
  perch.restart()
  await perch.step()
  expect([perch.reporter.triesInMs, perch.reporter.recalls]).toEqual([[HOUR], []])
})

test('after a restart an alarm is back in metrics and status, but not in the log', async () => {
  const perch = await openPerch({ sources: ['audit'], sinks: [], intervalMs: 5 * HOUR })
  await perch.step()
  perch.pass(2 * HOUR)
  await perch.step()
  perch.restart()
  await perch.step()
  expect(perch.notes.lacking).toEqual(['audit'])
  expect(perch.reporter.errors).toHaveLength(1)
  expect(
    perch.log.lines.filter((line) => JSON.stringify(line).includes('did not arrive everywhere')),
  ).toHaveLength(1)
})

test('a crash in mid-request costs no second prompt within the interval, and no alarm', async () => {
  const perch = await openPerch()
  perch.answers(() => new Promise(() => undefined))
  void perch.step()
  for (let i = 0; i < 100 && perch.asked.length === 0; i++) await new Promise(setImmediate)
  perch.restart()
  perch.answers(async () => undefined)
  expect(await perch.step()).toBe(HOUR)
  expect(perch.notes.lacking).toEqual([])
  perch.pass(HOUR)
  await perch.step()
  expect(perch.asked).toHaveLength(2)
})

test('a failing prompt is retried with growing pauses, up to its interval, and blocked where only a person helps', async () => {
  const perch = await openPerch()
  perch.answers(async () => {
    throw new ConnectorError('forbidden', 'the key lacks the permission')
  })
  const stop = new AbortController()
  const running = perch.canary.run(stop.signal)
  const at: number[] = []
  for (let turns = 0; turns < 4000 && at.length < 9; turns++) {
    await new Promise(setImmediate)
    if (perch.asked.length > at.length) at.push(perch.clock.now() - START)
    else perch.clock.advance(perch.clock.now() + 10 * HOUR)
  }
  stop.abort()
  await running
  const gaps = at.slice(1).map((one, i) => one - (at[i] ?? 0))
  expect(gaps[0]).toBeGreaterThanOrEqual(MINUTE / 2)
  expect(gaps.every((gap) => gap <= HOUR)).toBe(true)
  expect(Math.max(...gaps)).toBeGreaterThan(HOUR / 2)
  expect(perch.reporter.states).toContain('blocked')
  expect(perch.notes.lacking).toEqual([])
})

test('after a logged failure to ask, the first successful prompt is logged', async () => {
  const perch = await openPerch({ sources: [], sinks: [] })
  perch.answers(async () => {
    if (perch.asked.length === 1) throw new ConnectorError('unreachable', 'nobody there')
    return perch.clock.now()
  })
  const stop = new AbortController()
  const running = perch.canary.run(stop.signal)
  for (let turns = 0; turns < 4000 && perch.asked.length < 4; turns++) {
    await new Promise(setImmediate)
    perch.clock.advance(perch.clock.now() + 10 * HOUR)
  }
  stop.abort()
  await running
  const lines = perch.log.lines
    .map((line) => JSON.stringify(line))
    .filter((line) => /[Cc]anary prompt/.test(line))
  expect(lines).toEqual([
    expect.stringContaining('The canary prompt failed and will be retried'),
    expect.stringContaining('Canary prompts succeed again'),
  ])
})

test('after a clock was set back no prompt waits for more than its interval', async () => {
  const perch = await openPerch({ sources: [], sinks: [] })
  await perch.step()
  expect(await perch.step()).toBe(HOUR)
  perch.restart({ clock: new VirtualClock(START - 10 * HOUR) })
  await perch.step()
  expect(perch.asked).toHaveLength(2)
})

test('no prompt is sent before every source has caught up: its trace would come behind the backlog', async () => {
  let ready = false
  const perch = await openPerch({ ready: () => Promise.resolve(ready) })
  expect(await perch.step()).toBe(30_000)
  expect(perch.asked).toEqual([])
  ready = true
  expect(await perch.step()).toBe(0)
  expect(perch.asked).toHaveLength(1)
})

test('another User-Agent, user, time or text is no trace of ours', async () => {
  const perch = await openPerch({ sinks: [] })
  await perch.step()
  const { nonce } = perch
  await perch.read(
    'audit',
    { id: 'a', type: 'api:create_query', of: { user: USER, user_agent: 'auditferry/1 (instance 0)' } },
    { id: 'b', type: 'api:create_query', of: { user: USER, user_agent: 'x', data: { said: nonce } } },
    { id: 'c', type: 'auth:login', of: { user: USER, user_agent: nonce } },
  )
  await perch.read('history.usage', { id: 'd', time: perch.time(), of: { user: USER } })
  await perch.read('history.query', { id: 'e', time: perch.time(), of: { user: USER, query: 'other' } })
  await perch.read('history.query', { id: 'f', time: perch.time(-9 * 24 * HOUR), of: { query: nonce } })
  expect(perch.notes.reported).toEqual(['request 0'])
  await perch.read('audit', perch.audit())
  await perch.read(
    'history.usage',
    { id: 'g', time: perch.time(), of: { user: 'other@example.com' } },
    { id: 'h', time: perch.time(-MINUTE), of: { user: USER } },
    { id: 'i', time: perch.time(5 * MINUTE), of: { user: USER } },
  )
  expect(perch.notes.reported).toEqual(['request 0', 'audit 0'])
  // Read again, like the current day: known to the journal, and still a trace. v1 calls the user email.
  await perch.read('history.usage', { id: 'd', time: perch.time(), of: { email: USER } })
  expect(perch.notes.reported).toEqual(['request 0', 'audit 0', 'usage 0'])
})

test('a sink that refuses the entry for good has not accepted it', async () => {
  const perch = await openPerch({ sources: ['audit'], sinks: [{ name: 'siem', source: 'audit' }] })
  await perch.step()
  await perch.read('audit', perch.audit())
  await perch.journal.ack('siem', {
    ...{ first: 1, through: 1 },
    rejected: [{ seq: 1, code: 'refused', reason: 'no' }],
  })
  await perch.step()
  perch.pass(2 * HOUR)
  await perch.step()
  expect(perch.notes.lacking).toEqual(['delivered siem'])
})

test('the loop sleeps until a trace is shown to it, and checks the sinks each second from then on', async () => {
  const perch = await openPerch({ sources: ['audit'], sinks: [{ name: 'siem', source: 'audit' }] })
  const stop = new AbortController()
  const running = perch.canary.run(stop.signal)
  const turn = async () => {
    for (let i = 0; i < 20; i++) await new Promise(setImmediate)
  }
  await turn()
  perch.pass(10 * MINUTE)
  await perch.read('audit', perch.audit())
  await turn()
  await perch.ack('siem')
  perch.pass(1_000)
  await turn()
  expect(perch.notes.reported).toEqual(['request 0', 'audit 600', 'delivered siem 601'])
  expect(perch.notes.wholes).toHaveLength(1)
  stop.abort()
  await running
})

test('an unreadable state entry counts as none', async () => {
  const perch = await openPerch()
  for (const note of ['', '{', '[]', '{"round":{"nonce":1}}']) {
    await perch.journal.state.put('canary:acme', note)
    perch.restart()
    expect(await perch.step()).toBe(0)
  }
})

test('a stage missing in an earlier round is shown over a restart until a round is complete, also during the next one', async () => {
  const perch = await openPerch({ sources: ['audit'], sinks: [{ name: 'siem', source: 'audit' }] })
  await perch.step()
  perch.pass(HOUR)
  await perch.read('audit', perch.audit())
  await perch.step()
  perch.pass(HOUR)
  // The first is judged, and its interval over: the next goes out at once.
  await perch.step()
  expect([perch.asked.length, perch.notes.lacking]).toEqual([2, ['delivered siem']])
  const said = perch.reporter.errors.at(-1)?.message
  perch.restart()
  await perch.step()
  expect(perch.notes.lacking).toEqual(['delivered siem'])
  expect(perch.reporter.errors.map(({ message }) => message)).toEqual([said])
  await perch.read('audit', perch.audit())
  await perch.ack('siem')
  await perch.step()
  expect(perch.notes.lacking).toEqual([])
  perch.restart()
  await perch.step()
  expect([perch.notes.lacking, perch.reporter.errors]).toEqual([[], []])
})

test('a trace that is read again, like each day of the history, is reported once and keeps its first time', async () => {
  const perch = await openPerch({ sources: ['audit'], sinks: [{ name: 'siem', source: 'audit' }] })
  await perch.step()
  perch.pass(MINUTE)
  await perch.read('audit', perch.audit())
  perch.pass(MINUTE)
  await perch.ack('siem')
  await perch.read('audit', perch.audit(), { id: 'later', type: 'auth:login' })
  await perch.step()
  expect(perch.notes.reported).toEqual(['request 0', 'audit 60', 'delivered siem 120'])
})

test('a trace after the end of its round is not reported', async () => {
  const perch = await openPerch({ sources: ['audit'], sinks: [], intervalMs: 5 * HOUR })
  await perch.step()
  perch.pass(2 * HOUR)
  await perch.step()
  await perch.read('audit', perch.audit())
  expect([perch.notes.reported, perch.notes.lacking]).toEqual([['request 0'], ['audit']])
})

test('our key’s user stays known if a later trace does not name it', async () => {
  const perch = await openPerch({ sinks: [] })
  await perch.step()
  await perch.read('audit', perch.audit())
  await perch.read('history.query', { id: 'q', time: perch.time(), of: { query: perch.nonce } })
  await perch.read('history.usage', { id: 'u', time: perch.time(), of: { user: USER } })
  expect(perch.notes.reported).toEqual(['request 0', 'audit 0', 'query 0', 'usage 0'])
})

test('the answer time is reported again after a restart, and a clock that is set back makes nothing come before its prompt', async () => {
  const perch = await openPerch({ sources: ['audit'], sinks: [] })
  perch.answers(async () => {
    perch.pass(3_000)
    return undefined
  })
  await perch.step()
  expect(perch.notes.reported).toEqual(['request 3'])
  perch.restart({ clock: new VirtualClock(START - HOUR) })
  await perch.step()
  await perch.read('audit', perch.audit())
  expect(perch.notes.reported).toEqual(['request 3', 'audit 0'])
})

test('a recovery is logged once, and each prompt and each complete round is a success', async () => {
  const perch = await openPerch({ sources: ['audit'], sinks: [] })
  const whole = async () => {
    await perch.read('audit', perch.audit())
    await perch.step()
    perch.pass(HOUR)
  }
  const again = () => perch.log.lines.filter((line) => JSON.stringify(line).includes('complete again')).length
  await perch.step()
  await whole()
  expect([again(), perch.reporter.successes, perch.reporter.caughtUps]).toEqual([0, 2, 2])
  await perch.step()
  perch.pass(2 * HOUR)
  await perch.step()
  expect([perch.notes.lacking, perch.reporter.successes]).toEqual([['audit'], 3])
  await whole()
  expect([again(), perch.reporter.successes, perch.reporter.caughtUps]).toEqual([1, 4, 4])
  await perch.step()
  await whole()
  expect([again(), perch.reporter.successes, perch.reporter.caughtUps]).toEqual([1, 6, 6])
})

test('a prompt that could not be sent leaves the report of the one before unchanged', async () => {
  const perch = await openPerch({ sources: ['audit', 'history.query'], sinks: [] })
  await perch.step()
  await perch.read('audit', perch.audit())
  perch.answers(() => Promise.reject(new ConnectorError('unreachable', 'nobody there')))
  perch.pass(2 * HOUR)
  await expect(perch.step()).rejects.toThrow('nobody there')
  expect(perch.notes.lacking).toEqual(['query'])
  perch.restart()
  expect(await perch.step()).toBe(HOUR)
  expect(perch.notes.lacking).toEqual(['query'])
})

test('a lost lease ends the loop', async () => {
  const perch = await openPerch()
  perch.answers(() => Promise.reject(new ConnectorError('lease_lost', 'taken')))
  await expect(perch.canary.run(never)).rejects.toMatchObject({ code: 'lease_lost' })
})
