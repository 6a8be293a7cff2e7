// What every journal must do, whatever storage it uses. Each engine runs this suite.
// Sequence numbers are compared with what the journal returned: a shard need not begin at 1.
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { accountReport } from '../../src/contracts/accounts.ts'
import type { Clock } from '../../src/core/clock.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import { VERSION } from '../../src/contracts/entries.ts'
import type { Entries } from '../../src/contracts/entries.ts'
import type { Appended } from '../../src/contracts/source.ts'
import type { Batch, Journal, ReplayQuery, Resend } from '../../src/contracts/journal.ts'
import type { Log } from '../../src/core/log.ts'
import {
  audit,
  DAY_MS,
  entriesOf,
  idsOf,
  logOf,
  part,
  plenty,
  rawsOf,
  spec,
  START_US,
  TestClock,
  usage,
  uuid,
} from './journal-parts.ts'

interface JournalSettings {
  readonly maxBytes: number
  readonly keepKeysMs: number
  readonly keepDeliveredBytes: number
  readonly sinks: readonly string[]
  readonly clock: Clock
  readonly log: Log
}

/** The shard of one test. A second `open` opens the same shard. */
export interface JournalShard {
  /** Opens it and registers the sinks. Rejects while another journal has it open. */
  open(settings: JournalSettings): Promise<Journal>
  /** Lets the `nth` writing commit from now on fail and store nothing. With 0 none fails. */
  failCommit(nth: number): void
  /** Another process takes the shard over, as it may in this engine: `journal` is stale from then on. */
  succeed(journal: Journal, settings: JournalSettings): Promise<Journal>
  remove(): Promise<void>
}

export function journalContract(name: string, newShard: () => Promise<JournalShard>): void {
  describe(`journal contract: ${name}`, () => {
    let shard: JournalShard
    let journal: Journal
    let clock: TestClock
    let sentences: string[]
    /** the last sequence number before the first entry of the test */
    let base: number

    const settingsOf = (settings: Partial<JournalSettings> = {}): JournalSettings => ({
      ...{ maxBytes: 2 ** 30, keepKeysMs: 35 * DAY_MS, keepDeliveredBytes: 0, sinks: ['a', 'b'] },
      ...{ clock, log: logOf(sentences), ...settings },
    })
    const open = async (settings: Partial<JournalSettings> = {}) => {
      journal = await shard.open(settingsOf(settings))
    }
    /** The sequence number of the `nth` entry of the test. */
    const at = (nth: number) => base + nth
    const acknowledgement = (first: number, through: number) => ({
      ...{ first: at(first), through: at(through), rejected: [] },
    })
    const inFlight = (first: number, last: number, reported = 1) => ({
      ...{ first: at(first), last: at(last), shape: 's', detail: `{"a":${reported}}` },
    })
    const rejection = (nth: number, reason = 'no') => ({ seq: at(nth), code: 'refused', reason })
    /** Fails each commit of `work` in turn, and calls `holds` after each: nothing may have been stored. */
    const failingAtEachCommit = async (work: () => Promise<unknown>, holds: () => Promise<void>) => {
      for (let nth = 1; nth < 10; nth++) {
        shard.failCommit(nth)
        const failed = await work().then(
          () => false,
          () => true,
        )
        shard.failCommit(0)
        if (!failed) {
          expect(nth).toBeGreaterThan(1)
          return
        }
        await holds()
      }
      expect.fail('each commit failed')
    }
    const reopen = async (settings: Partial<JournalSettings> = {}) => {
      await journal.close()
      await open(settings)
    }
    const ack = (sink: string, first: number, through: number) =>
      journal.ack(sink, acknowledgement(first, through))

    beforeEach(async () => {
      sentences = []
      clock = new TestClock()
      shard = await newShard()
      await open()
      base = journal.stats().sinks[0]?.position ?? NaN
    })
    afterEach(async () => {
      await journal.close()
      await shard.remove()
    })

    describe('appending', () => {
      it('an entry seen twice is kept once', async () => {
        const first = await journal.append(part([spec(1), spec(2)]))
        const again = await journal.append(part([spec(1), spec(2)]))
        const mixed = await journal.append(part([spec(2), spec(3), spec(1), spec(4)]))
        expect([first.added, first.known]).toEqual([2, 0])
        expect([again.added, again.known]).toEqual([0, 2])
        expect([mixed.added, mixed.known]).toEqual([2, 2])
        expect(idsOf(await journal.take('a', plenty))).toEqual([1, 2, 3, 4].map(uuid))
      })

      it('a duplicate within one page is stored once, also beside known entries', async () => {
        expect(await journal.append(part([spec(1), spec(1), spec(2)]))).toMatchObject({ added: 2, known: 1 })
        expect(await journal.append(part([spec(3), spec(2), spec(3)]))).toMatchObject({ added: 1, known: 2 })
        expect(idsOf(await journal.take('a', plenty))).toEqual([1, 2, 3].map(uuid))
      })

      it('known entries are still known after a reopen', async () => {
        await journal.append(part([spec(1)], { cursor: 'c1' }))
        await reopen()
        expect(await journal.append(part([spec(1), spec(2)]))).toMatchObject({ added: 1, known: 1 })
        expect(await journal.cursor(audit)).toBe('c1')
      })

      it('known() compares source, time and id, and marks nothing as known', async () => {
        const looked = () =>
          journal.known(audit, entriesOf([spec(1), spec(2), spec(2, { at: START_US }), spec(3)]))
        expect([...(await looked())]).toEqual([0, 0, 0, 0])
        await journal.append(part([spec(1), spec(2)]))
        expect([...(await looked())]).toEqual([1, 1, 0, 0])
        expect([...(await looked())]).toEqual([1, 1, 0, 0])
        expect([...(await journal.known(usage, entriesOf([spec(1)])))]).toEqual([0])
        expect(await journal.append(part([spec(3)]))).toMatchObject({ added: 1, known: 0 })
      })

      it('entries centuries apart, up to the largest representable time, are known by their exact time', async () => {
        const reach = Number.MAX_SAFE_INTEGER
        const ats = [reach, -reach, 1 - reach, reach - 1, 0, START_US]
        const specs = ats.map((at, n) => spec(n, { at, time: `t${n}` }))
        for (const each of specs) expect(await journal.append(part([each]))).toMatchObject({ added: 1 })
        expect(await journal.append(part(specs))).toMatchObject({ added: 0, known: specs.length })
        expect([...(await journal.known(audit, entriesOf(specs)))]).toEqual(specs.map(() => 1))
        const others = ats.map((at, n) => spec(n, { at: at - Math.sign(at || 1), time: `u${n}` }))
        expect(await journal.append(part(others))).toMatchObject({ added: others.length, known: 0 })
        expect(await journal.append(part(others.toReversed()))).toMatchObject({ known: others.length })
      })

      it('entries at extreme times are known by their exact time beside filtered ones', async () => {
        const reach = Number.MAX_SAFE_INTEGER
        const specs = [reach, -reach, reach - 5].map((at, n) =>
          spec(n, { at, time: `t${n}`, type: n === 0 ? 'skipped' : 'kept' }),
        )
        const wanted = (type: string) => type === 'kept'
        expect(await journal.append(part(specs, { wanted }))).toMatchObject({ added: 2, filtered: 1 })
        expect([...(await journal.known(audit, entriesOf(specs)))]).toEqual([0, 1, 1])
      })

      it('one id at two times is two entries, also beside a known one', async () => {
        await journal.append(part([spec(1)]))
        const twice = [spec(5), spec(5, { at: START_US })]
        expect(await journal.append(part([spec(1), ...twice]))).toMatchObject({ added: 2, known: 1 })
      })

      it('a time that is not a whole number of microseconds refuses the whole page chunk', async () => {
        for (const at of [NaN, 0.5, 2 ** 53]) {
          const odd = part([spec(1), spec(2, { at, time: 'odd' })], { cursor: 'c' })
          await expect(journal.append(odd)).rejects.toThrow('no time in whole microseconds')
        }
        expect(await journal.cursor(audit)).toBeUndefined()
        expect(await journal.take('a', plenty)).toBeUndefined()
      })

      it('ids compare exactly: case, length and ids that are no UUID matter', async () => {
        const ids = [
          '0000000a-0000-4000-8000-00000000000b',
          '0000000A-0000-4000-8000-00000000000B',
          'x',
          '17',
          '17 ',
        ]
        ids.push(
          `${ids[0] ?? ''}0`,
          '0000000g-0000-4000-8000-00000000000b',
          '0000000a00000-4000-8000-0000000000-b',
        )
        const specs = ids.map((id) => ({ id, at: START_US }))
        expect(await journal.append(part(specs))).toMatchObject({ added: ids.length, known: 0 })
        expect(await journal.append(part(specs))).toMatchObject({ added: 0, known: ids.length })
      })

      it('the same id in another source or workspace is another entry', async () => {
        for (const workspace of ['acme', 'beta']) {
          for (const source of ['audit', 'vault.projects'] as const)
            expect(await journal.append(part([spec(1)], { stream: { workspace, source } }))).toMatchObject({
              added: 1,
            })
        }
        const batch = await journal.take('a', plenty)
        expect(batch?.slices.map(({ stream }) => `${stream.workspace} ${stream.source}`)).toEqual([
          ...['acme audit', 'acme vault.projects', 'beta audit', 'beta vault.projects'],
        ])
      })

      it('an audit entry with other content under a known id is known: the first content stays', async () => {
        await journal.append(part([spec(1, { body: 'first' })]))
        expect(await journal.append(part([spec(1, { body: 'other' })]))).toMatchObject({ added: 0, known: 1 })
      })

      it('a history entry that comes again with other content is a new version', async () => {
        const append = (...specs: ReturnType<typeof spec>[]) => journal.append(part(specs, { stream: usage }))
        expect(await append(spec(1, { body: 'a' }), spec(2))).toMatchObject({ added: 2 })
        expect(await append(spec(1, { body: 'a' }), spec(2))).toMatchObject({ added: 0, known: 2 })
        expect(await append(spec(1, { body: 'b' }), spec(2))).toMatchObject({ added: 1, known: 1 })
        await reopen()
        expect(await append(spec(1, { body: 'b' }))).toMatchObject({ known: 1 })
        expect(await append(spec(1, { body: 'c' }), spec(1, { body: 'd' }))).toMatchObject({ added: 2 })
        const batch = await journal.take('a', plenty)
        const versions = batch?.slices.flatMap(({ entries }) =>
          Array.from({ length: entries.count }, (_, i) => entries.column(i, VERSION)),
        )
        expect(versions).toEqual([0, 0, 2, 3, 4])
        expect(rawsOf(batch)[2]).toContain('"body":"b"')
      })

      it('a history entry that alternates between contents counts as new 16 times; unseen content always does', async () => {
        const append = (...bodies: string[]) =>
          journal.append(
            part(
              bodies.map((body) => spec(1, { body })),
              { stream: usage },
            ),
          )
        // Alternating, or both in one answer: each change counts at first, since it may be a change that was undone.
        for (let i = 0; i < 7; i++) expect(await append('a', 'b')).toMatchObject({ added: 2 })
        await reopen()
        expect(await append('a')).toMatchObject({ added: 1 })
        expect(await append('b')).toMatchObject({ added: 1 })
        for (let i = 0; i < 3; i++) expect(await append('a', 'b')).toMatchObject({ added: 0, known: 2 })
        await reopen()
        // Fifteen more, each new: the journal remembers the last sixteen.
        const more = Array.from({ length: 15 }, (_, i) => `more ${i}`)
        for (const body of more) expect(await append(body)).toMatchObject({ added: 1 })
        expect(await append(...more, 'b')).toMatchObject({ added: 0, known: 16 })
        expect(await append('a')).toMatchObject({ added: 1 })
        const entries = (await journal.take('a', plenty))?.slices.at(-1)?.entries
        expect(entries?.column(0, VERSION)).toBe(32)
      })

      it('unwanted types are counted and not stored, and the filter is asked once per type', async () => {
        const asked: string[] = []
        const wanted = (type: string) => (asked.push(type), type !== 'api:x')
        const specs = [spec(1), spec(2, { type: 'api:x' }), spec(3), spec(4, { type: 'api:x' })]
        expect(await journal.append(part(specs, { wanted }))).toMatchObject({
          added: 2,
          filtered: 2,
          known: 0,
        })
        expect(asked).toEqual(['user:create_query', 'api:x'])
        expect(await journal.append(part(specs, { wanted }))).toMatchObject({
          added: 0,
          filtered: 2,
          known: 2,
        })
        expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(1), uuid(3)])
      })

      it('a new entry older than the head is late, and the append returns by how much', async () => {
        await journal.append(part([spec(5)]))
        const headUs = START_US + 10_000_000
        expect(await journal.append(part([spec(4), spec(5), spec(8), spec(12)], { headUs }))).toMatchObject({
          ...{ added: 1, late: 2, known: 1, latestBehindUs: 6_000_000 },
        })
      })

      it('an append returns the last sequence number, also if it added nothing', async () => {
        const last = async (...specs: Parameters<typeof part>[0]) => (await journal.append(part(specs))).last
        expect(await last(spec(1), spec(2))).toBe(at(2))
        expect(await last(spec(1))).toBe(at(2))
        expect(await last()).toBe(at(2))
        expect(await last(spec(3))).toBe(at(3))
        expect((await journal.take('a', plenty))?.last).toBe(at(3))
      })

      it('the cursor moves with the entries, and stays if a page chunk has none', async () => {
        expect(await journal.cursor(audit)).toBeUndefined()
        await journal.append(part([spec(1)]))
        expect(await journal.cursor(audit)).toBeUndefined()
        await journal.append(part([spec(2)], { cursor: 'c2' }))
        await journal.append(part([spec(3)]))
        await journal.append(part([], { stream: usage, cursor: 'h1' }))
        await reopen()
        expect([await journal.cursor(audit), await journal.cursor(usage)]).toEqual(['c2', 'h1'])
      })

      it('quarantined bytes are kept once, findings count for new entries only, gaps add up', async () => {
        const bytes = Buffer.from('{"no":"id"}')
        const quarantined = [
          { reason: 'no_id', bytes, totalBytes: bytes.length, sha256: 'ab'.repeat(32) },
        ] as const
        const findings = [{ kind: 'foreign_fetch', index: 1 }] as const
        const seen = part([spec(1), spec(2)], { quarantined, findings, gaps: 1 })
        expect(await journal.append(seen)).toMatchObject({ quarantined: 1, findings: 1 })
        expect(await journal.append(seen)).toMatchObject({ quarantined: 0, findings: 0 })
        clock.nowMs += 5
        await journal.append(part([spec(3)], { findings: [{ kind: 'foreign_fetch', index: 0 }] }))
        await reopen()
        expect(journal.stats()).toMatchObject({ quarantined: 1, findings: 2, gaps: 2 })
        expect(journal.stats().lastFindings.map(({ entryId }) => entryId)).toEqual([uuid(3), uuid(2)])
        expect(journal.stats().lastFindings[0]).toEqual({
          ...{ stream: audit, kind: 'foreign_fetch', entryId: uuid(3), foundAt: clock.nowMs },
          entryUs: spec(3).at,
        })
        await journal.append(part([spec(5)], { findings: [{ kind: 'foreign_fetch', index: 0 }] }))
        expect(journal.stats().lastFindings[0]).toMatchObject({ entryId: uuid(5), entryUs: spec(5).at })
        await journal.append(part([spec(4)], { findings: [{ kind: 'foreign_fetch', index: 0 }] }))
        expect(journal.stats().lastFindings.map(({ entryId }) => entryId)).toEqual([4, 5, 3, 2].map(uuid))
      })

      it('an element that was quarantined before, or earlier in its page chunk, is known, also after it was dropped', async () => {
        const element = (text: string) => {
          const sha256 = text.padEnd(64, '0')
          return { reason: 'no_id', bytes: Buffer.from(text), totalBytes: 3, sha256 } as const
        }
        const types = { wanted: (type: string) => type !== 'fetch' }
        const entries = [spec(1), spec(2, { type: 'fetch' })]
        const first = part(entries, { ...types, quarantined: [element('aa'), element('bbb'), element('aa')] })
        const none = { added: 0, late: 0 }
        expect(await journal.append(first)).toMatchObject({
          ...{ added: 1, late: 0, known: 1, filtered: 1, quarantined: 2 },
        })
        expect(await journal.append(first)).toMatchObject({ ...none, known: 4, filtered: 1, quarantined: 0 })
        await journal.dropQuarantined({})
        expect(await journal.append(first)).toMatchObject({ ...none, known: 4, filtered: 1, quarantined: 0 })
      })

      it('a finding about an unwanted entry is stored once, however often the entry is read', async () => {
        const finding = (index: number) => ({ kind: 'foreign_fetch', index }) as const
        const types = { wanted: (type: string) => type !== 'fetch' }
        const fetch = (n: number) => spec(n, { type: 'fetch' })
        const seen = [spec(1), fetch(2), spec(3), fetch(4)]
        const findings = [finding(1), finding(3)]
        expect(await journal.append(part(seen, { findings, ...types }))).toMatchObject({
          ...{ added: 2, filtered: 2, findings: 2 },
        })
        await reopen()
        const all = [...seen, fetch(5)]
        const again = part(all, { findings: [finding(1), finding(3), finding(4)], ...types })
        expect(await journal.append(again)).toMatchObject({ known: 2, filtered: 3, findings: 1 })
        expect(await journal.append(part(all, { findings }))).toMatchObject({ added: 3, findings: 0 })
        // Known: whether it is a finding was decided when it was new.
        expect(await journal.append(part(all, { findings: [finding(0)] }))).toMatchObject({ findings: 0 })
        expect(journal.stats().findings).toBe(3)
        expect(journal.stats().lastFindings.map(({ entryId }) => entryId)).toEqual([
          uuid(5),
          uuid(4),
          uuid(2),
        ])
        // Another source may have entries of the same ids.
        const other = { stream: usage, findings, ...types }
        expect(await journal.append(part(seen, other))).toMatchObject({ findings: 2 })
      })

      it('quarantine lists without bytes, page by page, and returns the bytes by id', async () => {
        const element = (text: string, reason: 'no_id' | 'too_large') => ({
          ...{ reason, bytes: Buffer.from(text), totalBytes: 5000, sha256: text.padEnd(64, '0') },
        })
        await journal.append(part([], { quarantined: [element('aa', 'no_id'), element('bbb', 'too_large')] }))
        await journal.append(part([], { stream: usage, quarantined: [element('c', 'no_id')] }))
        await reopen()
        const all = await journal.quarantined({})
        expect(all.map(({ keptBytes, reason }) => [keptBytes, reason])).toEqual([
          [2, 'no_id'],
          [3, 'too_large'],
          [1, 'no_id'],
        ])
        const [first, second, third] = all.map(({ id }) => id)
        expect(all[2]).toEqual({
          ...{ id: third, stream: usage, reason: 'no_id', totalBytes: 5000, keptBytes: 1 },
          ...{ sha256: 'c'.padEnd(64, '0'), keptAt: clock.nowMs },
        })
        expect(await journal.quarantined({ limit: 1 })).toEqual(all.slice(0, 1))
        expect(await journal.quarantined({ after: first ?? 0 })).toEqual(all.slice(1))
        expect(await journal.quarantined({ ids: [second ?? 0, 999] })).toEqual(all.slice(1, 2))
        expect(Buffer.from((await journal.quarantinedRaw(second ?? 0)) ?? '').toString()).toBe('bbb')
        expect(await journal.quarantinedRaw(999)).toBeUndefined()
      })

      it('dropped quarantine frees its bytes, stays counted, and does not come back while keys are kept', async () => {
        const element = (text: string) => {
          const sha256 = text.padEnd(64, '0')
          return { reason: 'no_id', bytes: Buffer.from(text), totalBytes: 3, sha256 } as const
        }
        const seen = part([], { quarantined: [element('aa'), element('bbb')] })
        await journal.append(seen)
        const counted = await journal.counts({ fromDay: 0, toDay: 1e6 })
        const [first, second] = (await journal.quarantined({})).map(({ id }) => id)
        expect(await journal.dropQuarantined({ ids: [] })).toBe(0)
        expect(await journal.dropQuarantined({ ids: [first ?? 0, 999] })).toBe(1)
        expect(await journal.dropQuarantined({ ids: [first ?? 0] })).toBe(0)
        const stillDropped = async () => {
          expect((await journal.quarantined({})).map(({ id }) => id)).toEqual([second])
          expect(await journal.quarantinedRaw(first ?? 0)).toBeUndefined()
          expect(journal.stats().quarantined).toBe(1)
          expect(await journal.append(seen)).toMatchObject({ quarantined: 0 })
          expect(await journal.counts({ fromDay: 0, toDay: 1e6 })).toEqual(counted)
        }
        await stillDropped()
        clock.nowMs += 35 * DAY_MS - 1
        await reopen()
        await stillDropped()
        clock.nowMs += 2
        await reopen()
        expect(await journal.append(seen)).toMatchObject({ quarantined: 1 })
        expect(journal.stats().quarantined).toBe(2)
      })

      it('at the limit of pending bytes a page chunk is refused whole; delivered bytes do not count', async () => {
        await reopen({ maxBytes: 100, keepDeliveredBytes: 10_000 })
        await journal.append(part([spec(1)], { cursor: 'c1' }))
        expect(journal.stats()).toMatchObject({ full: true, capacityBytes: 100, entries: 1 })
        await expect(journal.append(part([spec(2)], { cursor: 'c2' }))).rejects.toMatchObject({
          code: 'journal_full',
        })
        expect(await journal.cursor(audit)).toBe('c1')
        await ack('a', 1, 1)
        await expect(journal.append(part([spec(2)]))).rejects.toMatchObject({ code: 'journal_full' })
        await ack('b', 1, 1)
        expect(journal.stats()).toMatchObject({ full: false, bytes: 0, entries: 0 })
        expect(await journal.append(part([spec(2)]))).toMatchObject({ added: 1 })
      })

      it('a crash inside an append leaves nothing of it', async () => {
        await journal.append(part([spec(1)], { cursor: 'c1' }))
        const state = [{ name: 'x', value: '1' }]
        const bytes = Buffer.from('{')
        const quarantined = [{ reason: 'no_id', bytes, totalBytes: 1, sha256: 'ab'.repeat(32) }] as const
        const next = part([spec(1), spec(2)], { cursor: 'c2', gaps: 1, quarantined, state })
        await failingAtEachCommit(
          () => journal.append(next),
          async () => {
            expect(await journal.cursor(audit)).toBe('c1')
            expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(1)])
            expect(await journal.state.get('x')).toBeUndefined()
            expect(journal.stats()).toMatchObject({ entries: 1, gaps: 0, quarantined: 0 })
            await reopen()
          },
        )
        expect(await journal.cursor(audit)).toBe('c2')
        expect(await journal.append(next)).toMatchObject({ added: 0, known: 3 })
        expect(idsOf(await journal.take('a', plenty))).toEqual([1, 2].map(uuid))
      })
    })

    describe('taking', () => {
      const many = (from: number, count: number) => Array.from({ length: count }, (_, i) => spec(from + i))

      it('entries come out byte for byte and in order, with id, time, type and stream', async () => {
        const specs = [
          spec(1, { body: 'x', type: 'a:b' }),
          spec(2, { body: '€ \\u0000 "' }),
          { id: 'é"', at: START_US },
        ]
        const entries = entriesOf(specs)
        await journal.append(part([], { entries }))
        await reopen()
        const batch = await journal.take('a', plenty)
        expect(rawsOf(batch)).toEqual(specs.map((_, i) => Buffer.from(entries.raw(i)).toString()))
        const kept = batch?.slices[0]?.entries
        for (const i of [0, 1]) {
          expect([kept?.id(i), kept?.time(i), kept?.at(i), kept?.type(i)]).toEqual([
            ...[entries.id(i), entries.time(i), entries.at(i), entries.type(i)],
          ])
        }
        expect(batch).toMatchObject({ first: at(1), last: at(3), count: 3 })
        expect(batch?.slices[0]).toMatchObject({
          firstSeq: at(1),
          appendedAt: clock.nowMs,
          onlySink: undefined,
          replay: false,
        })
      })

      it('a batch keeps to its limits across chunks, and always has room for one entry', async () => {
        await journal.append(part(many(1, 3)))
        await journal.append(part(many(4, 3)))
        const size = entriesOf([spec(1)]).rawBytes(0)
        const take = (maxEntries: number, maxBytes: number, after?: number) =>
          journal.take('a', { maxEntries, maxBytes }, { after: after && at(after) }).then(idsOf)
        expect(await take(4, 1e6)).toEqual([1, 2, 3, 4].map(uuid))
        expect(await take(9, 5 * size)).toEqual([1, 2, 3, 4, 5].map(uuid))
        expect(await take(9, 5 * size - 1)).toEqual([1, 2, 3, 4].map(uuid))
        expect(await take(9, 3 * size)).toEqual([1, 2, 3].map(uuid))
        expect(await take(9, 1)).toEqual([uuid(1)])
        expect(await take(2, 1e6, 2)).toEqual([3, 4].map(uuid))
        expect(await journal.take('a', plenty, { after: at(6) })).toBeUndefined()
      })

      it('an entry larger than loneBytes is reported by size and not loaded; after other entries it waits for the next batch', async () => {
        for (const n of [1, 2, 3]) await journal.append(part([spec(n)]))
        await reopen()
        const size = entriesOf([spec(1)]).rawBytes(0)
        const take = (loneBytes: number, after?: number) =>
          journal.take('a', { maxEntries: 9, maxBytes: 2 * size, loneBytes }, { after: after && at(after) })
        expect(await take(size - 1)).toEqual({ rawBytes: size })
        expect(idsOf((await take(size)) as Batch)).toEqual([1, 2].map(uuid))
        expect(await take(size - 1, 2)).toEqual({ rawBytes: size })
      })

      it('a page chunk of more than a thousand entries is one append and comes out whole', async () => {
        await journal.append(part(many(1, 2345)))
        const batch = await journal.take('a', { maxEntries: 5000, maxBytes: 1e9 })
        expect(idsOf(batch)).toEqual(many(1, 2345).map(({ id }) => id))
        expect(batch?.slices[0]?.firstSeq).toBe(at(1))
      })

      it('each sink has its own position, kept over a restart', async () => {
        await journal.append(part(many(1, 4)))
        await ack('a', 1, 3)
        await reopen()
        expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(4)])
        expect(idsOf(await journal.take('b', plenty))).toEqual([1, 2, 3, 4].map(uuid))
        expect(journal.stats().sinks).toMatchObject([
          { sink: 'a', position: at(3), pendingEntries: 1, oldestPendingAt: clock.nowMs },
          { sink: 'b', position: at(0), pendingEntries: 4 },
        ])
      })

      it('a range acknowledged out of order is remembered and not taken again', async () => {
        await journal.append(part(many(1, 10)))
        await ack('a', 4, 6)
        await ack('a', 9, 9)
        await reopen()
        expect(journal.stats().sinks[0]).toMatchObject({ position: at(0), pendingEntries: 6 })
        expect(idsOf(await journal.take('a', plenty))).toEqual([1, 2, 3].map(uuid))
        expect(idsOf(await journal.take('a', plenty, { after: at(3) }))).toEqual([7, 8].map(uuid))
        await ack('a', 1, 3)
        expect(journal.stats().sinks[0]).toMatchObject({ position: at(6), pendingEntries: 3 })
        await ack('a', 7, 8)
        expect(journal.stats().sinks[0]).toMatchObject({ position: at(9), pendingEntries: 1 })
        await ack('a', 10, 10)
        expect(journal.stats().sinks[0]).toMatchObject({
          position: at(10),
          pendingEntries: 0,
          oldestPendingAt: undefined,
        })
      })

      it('an in-flight batch is stored, replaced, removed once acknowledged, and comes out again exactly', async () => {
        await journal.append(part(many(1, 3)))
        await journal.append(part(many(4, 3)))
        await journal.recordInFlight('a', inFlight(1, 4))
        await journal.recordInFlight('a', inFlight(5, 6))
        await journal.recordInFlight('a', inFlight(1, 4, 2))
        await reopen()
        expect(await journal.inFlightBatches('a')).toEqual([inFlight(1, 4, 2), inFlight(5, 6)])
        expect(await journal.inFlightBatches('b')).toEqual([])
        expect(idsOf(await journal.range(at(1), at(4)))).toEqual([1, 2, 3, 4].map(uuid))
        await ack('a', 5, 6)
        expect(await journal.inFlightBatches('a')).toEqual([inFlight(1, 4, 2)])
        await journal.ack('a', { ...acknowledgement(1, 2), next: inFlight(3, 4) })
        expect(await journal.inFlightBatches('a')).toEqual([inFlight(3, 4)])
        await expect(journal.range(at(5), at(7))).rejects.toMatchObject({ code: 'journal_corrupt' })
      })

      it('a new sink starts at the oldest entry still kept', async () => {
        await reopen({ keepDeliveredBytes: 1 })
        for (const n of [1, 2, 3]) await journal.append(part([spec(n)]))
        for (const sink of ['a', 'b']) await ack(sink, 1, 2)
        while (await journal.prune()) continue
        await reopen({ sinks: ['a', 'b', 'new'] })
        expect(idsOf(await journal.take('new', plenty))).toEqual([uuid(3)])
      })

      it('the log says how many entries a new sink starts with, without those for another sink only', async () => {
        await journal.append(part(many(1, 3)))
        for (const sink of ['a', 'b']) await ack(sink, 1, 3)
        const span = { fromUs: 0, toUs: START_US * 2, sources: ['audit' as const] }
        const query = { ...span, sink: 'a', runAt: 1, dryRun: false, after: 0, until: undefined }
        expect(await journal.replay(query)).toMatchObject({ entries: 3 })
        const reported: unknown[] = []
        const collect = (_: string, fields?: object) => void reported.push(fields)
        await reopen({ sinks: ['a', 'b', 'new'], log: { ...logOf(), info: collect } })
        expect(reported).toEqual([{ sink: 'new', entries: 3 }])
      })

      it('the log says how many entries a removed sink had pending, without those for another sink only', async () => {
        await journal.append(part(many(1, 5)))
        await ack('a', 1, 2)
        await ack('a', 4, 4)
        const span = { fromUs: 0, toUs: START_US * 2, sources: ['audit' as const] }
        await journal.replay({ ...span, sink: 'b', runAt: 1, dryRun: false, after: 0, until: undefined })
        const reported: unknown[] = []
        const collect = (_: string, fields?: object) => void reported.push(fields)
        await reopen({ sinks: ['b'], log: { ...logOf(), warn: collect } })
        expect(reported).toEqual([{ sink: 'a', entries: 2 }])
      })

      it('a removed sink does not keep entries, and is logged once', async () => {
        await journal.append(part([spec(1)]))
        await reopen({ sinks: ['b'] })
        expect(journal.stats()).toMatchObject({ unconfigured: ['a'], entries: 1 })
        await ack('b', 1, 1)
        expect(journal.stats()).toMatchObject({ entries: 0, bytes: 0 })
        await reopen({ sinks: ['b'] })
        expect(sentences.filter((sentence) => sentence.includes('left the configuration'))).toHaveLength(1)
        while (await journal.prune()) continue
        await journal.append(part([spec(2)]))
        await reopen()
        expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(2)])
        expect(journal.stats()).toMatchObject({ unconfigured: [], entries: 1 })
        // It came back, so its next removal is logged again.
        await reopen({ sinks: ['b'] })
        expect(sentences.filter((sentence) => sentence.includes('left the configuration'))).toHaveLength(2)
      })

      it('a returning sink loses only the in-flight batches whose entries were pruned', async () => {
        for (const n of [1, 2, 3]) await journal.append(part([spec(n)]))
        for (const n of [1, 2, 3]) await journal.recordInFlight('a', inFlight(n, n))
        await reopen({ sinks: ['b'] })
        await ack('b', 1, 2)
        while (await journal.prune()) continue
        await reopen()
        expect(await journal.inFlightBatches('a')).toMatchObject([{ first: at(3), last: at(3) }])
        expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(3)])
      })

      it('a returning sink keeps what it acknowledged out of order beyond the pruned entries, also after a second start', async () => {
        for (const from of [1, 5]) await journal.append(part(many(from, 4)))
        await ack('a', 2, 6)
        await reopen({ sinks: ['b'] })
        await ack('b', 1, 4)
        while (await journal.prune()) continue
        for (let start = 0; start < 2; start++) {
          await reopen()
          expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(7), uuid(8)])
        }
        // Ranges below its position are counted in the position and not once more.
        const reported: unknown[] = []
        const collect = (_: string, fields?: object) => void reported.push(fields)
        await reopen({ sinks: ['b'], log: { ...logOf(), warn: collect } })
        expect(reported).toEqual([{ sink: 'a', entries: 2 }])
      })

      it('sequence numbers continue after everything was delivered and pruned', async () => {
        await journal.append(part(many(1, 5)))
        for (const sink of ['a', 'b']) await ack(sink, 1, 5)
        while (await journal.prune()) continue
        await reopen()
        await journal.append(part([spec(6)]))
        expect(await journal.take('a', plenty)).toMatchObject({ first: at(6), last: at(6) })
      })

      it('waiting for an arrival ends with an append, an abort, or at once if one came since', async () => {
        const abort = new AbortController()
        let woken = 0
        const wait = () => journal.arrival('a', abort.signal).then(() => woken++)
        const waiting = wait()
        await journal.append(part([spec(1)]))
        await waiting
        await journal.append(part([spec(2)]))
        await wait()
        expect(woken).toBe(2)
        const last = wait()
        await journal.append(part([spec(2)]))
        await new Promise(setImmediate)
        expect(woken).toBe(2)
        abort.abort()
        await last
        expect(woken).toBe(3)
      })
    })

    describe('dead letters', () => {
      const reject = async (sink: string, seq: number) =>
        journal.ack(sink, {
          ...acknowledgement(seq, seq),
          rejected: [{ seq: at(seq), code: '6', reason: 'invalid data' }],
        })

      it('a dead letter keeps its bytes after its chunk is pruned', async () => {
        await journal.append(part([spec(1, { body: 'poison' }), spec(2)]))
        await reject('a', 1)
        await ack('a', 2, 2)
        await ack('b', 1, 2)
        while (await journal.prune()) continue
        await reopen()
        const [letter] = await journal.deadLetters({})
        expect(letter).toMatchObject({
          sink: 'a',
          seq: at(1),
          stream: audit,
          entryId: uuid(1),
          code: '6',
          reason: 'invalid data',
        })
        const raw = Buffer.from((await journal.deadLetterRaw(letter?.id ?? 0)) ?? [])
        expect(JSON.parse(raw.toString())).toMatchObject({ id: uuid(1), body: 'poison' })
        expect(letter?.bytes).toBe(raw.length)
        expect(journal.stats().sinks.map(({ deadLetters }) => deadLetters)).toEqual([1, 0])
        expect(await journal.deadLetterRaw(99)).toBeUndefined()
      })

      it('a dead letter and the position are stored together: after a crash in between the entry is pending', async () => {
        await journal.append(part([spec(1)]))
        await failingAtEachCommit(
          () => reject('a', 1),
          async () => {
            await reopen()
            expect(await journal.deadLetters({})).toEqual([])
            expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(1)])
          },
        )
        expect(await journal.deadLetters({})).toHaveLength(1)
      })

      it('a retried dead letter comes out again at the end, byte for byte, for its sink only', async () => {
        await journal.append(part([spec(1, { body: 'one' })], { stream: usage }))
        await journal.append(part([spec(1, { body: 'two' }), spec(2)], { stream: usage }))
        const before = rawsOf(await journal.range(at(2), at(2)))
        await ack('b', 1, 3)
        await ack('a', 1, 1)
        await reject('a', 2)
        await ack('a', 3, 3)
        expect(await journal.retryDeadLetters({ sink: 'b' })).toBe(0)
        expect(await journal.retryDeadLetters({ sink: 'a' })).toBe(1)
        expect(await journal.deadLetters({})).toEqual([])
        await reopen()
        const batch = await journal.take('b', plenty)
        expect(batch?.slices[0]).toMatchObject({ onlySink: 'a', stream: usage, firstSeq: at(4) })
        const entries = batch?.slices[0]?.entries
        expect([entries?.id(0), entries?.version(0), entries?.type(0)]).toEqual([
          uuid(1),
          2,
          'user:create_query',
        ])
        expect([entries?.time(0), entries?.at(0)]).toEqual(['2026-01-31T00:00:01.000Z', START_US + 1_000_000])
        expect(rawsOf(batch)).toEqual(before)
        expect(journal.stats().sinks.map(({ deadLetters }) => deadLetters)).toEqual([0, 0])
      })

      it('dead letters are listed, paged, selected by sink or id, and dropped', async () => {
        await journal.append(part([spec(1), spec(2), spec(3)]))
        for (const seq of [1, 2, 3]) for (const sink of ['a', 'b']) await reject(sink, seq)
        const ids = (await journal.deadLetters({})).map(({ id }) => id)
        expect(ids).toHaveLength(6)
        const page = await journal.deadLetters({ limit: 2, after: ids[1] ?? 0 })
        expect(page.map(({ id }) => id)).toEqual(ids.slice(2, 4))
        expect(await journal.dropDeadLetters({ ids: [] })).toBe(0)
        expect(await journal.dropDeadLetters({ ids: [ids[0] ?? 0, 999] })).toBe(1)
        expect(await journal.dropDeadLetters({ sink: 'b' })).toBe(3)
        expect((await journal.deadLetters({})).map(({ sink, seq }) => [sink, seq])).toEqual([
          ['a', at(2)],
          ['a', at(3)],
        ])
        expect(journal.stats().sinks.map(({ deadLetters }) => deadLetters)).toEqual([2, 0])
      })
    })

    describe('a replay', () => {
      const asked = (more: Partial<ReplayQuery> = {}): ReplayQuery => ({
        ...{ sink: 'a', fromUs: 0, toUs: Infinity, sources: ['audit'] as const, runAt: clock.now() },
        ...{ dryRun: false, after: 0, until: undefined },
        ...more,
      })
      const walk = async (query: ReplayQuery) => {
        let entries = 0
        for (let at = query; ;) {
          const step = await journal.replay(at)
          entries += step.entries
          if (!step.more) return entries
          at = { ...at, after: step.through, until: step.until }
        }
      }
      beforeEach(async () => reopen({ keepDeliveredBytes: 2 ** 20 }))

      it('appends the span again, byte for byte, marked, for its sink only', async () => {
        await journal.append(part([spec(1), spec(2), spec(3), spec(4)]))
        for (const sink of ['a', 'b']) await journal.ack(sink, acknowledgement(1, 4))
        const fromUs = START_US + 2_000_000
        const toUs = START_US + 4_000_000
        expect(await walk(asked({ fromUs, toUs, runAt: 77 }))).toBe(2)
        const batch = await journal.take('a', plenty)
        expect(batch).toMatchObject({ first: at(5), last: at(6) })
        expect(batch?.slices[0]).toMatchObject({ replay: true, onlySink: 'a', appendedAt: 77 })
        expect(rawsOf(batch)).toEqual(rawsOf({ ...(await journal.range(at(2), at(3))) }))
        expect(journal.stats()).toMatchObject({ entries: 2 })
      })

      it('skips what the sink has pending and what was replayed before', async () => {
        await journal.append(part([spec(1), spec(2), spec(3)]))
        await journal.ack('a', acknowledgement(1, 2))
        await journal.append(part([spec(4)]))
        expect(await walk(asked())).toBe(2)
        await journal.ack('a', acknowledgement(3, 6))
        expect(await walk(asked())).toBe(4)
        expect(idsOf(await journal.take('a', plenty))).toEqual([1, 2, 3, 4].map(uuid))
      })

      it('includes what the sink acknowledged out of order, and skips what is pending before it', async () => {
        await journal.append(part([spec(1), spec(2), spec(3), spec(4)]))
        await journal.append(part([spec(5), spec(6)]))
        await journal.ack('a', acknowledgement(1, 1))
        await journal.ack('a', acknowledgement(3, 3))
        await journal.ack('a', acknowledgement(5, 5))
        expect(await walk(asked())).toBe(3)
        // What it had pending, and what the replay appended after that.
        await journal.ack('a', acknowledgement(2, 2))
        await journal.ack('a', acknowledgement(4, 4))
        await journal.ack('a', acknowledgement(6, 6))
        expect(idsOf(await journal.take('a', plenty))).toEqual([1, 3, 5].map(uuid))
      })

      it('only counts on a dry run, and selects by source and workspace', async () => {
        await journal.append(part([spec(1)]))
        await journal.append(part([spec(2)], { stream: usage }))
        await journal.append(part([spec(3)], { stream: { workspace: 'other', source: 'audit' } }))
        await journal.ack('a', acknowledgement(1, 3))
        const bytes = rawsOf(await journal.range(at(1), at(1))).join('').length
        expect(await journal.replay(asked({ dryRun: true, workspace: 'acme' }))).toMatchObject({
          ...{ entries: 1, bytes, until: at(3), keptSince: clock.now() },
        })
        expect(await walk(asked({ dryRun: true }))).toBe(2)
        expect(await journal.take('a', plenty)).toBeUndefined()
        expect(await walk(asked({ sources: ['history.usage'] }))).toBe(1)
      })

      it('runs in steps and excludes entries that arrive in between', async () => {
        for (let i = 0; i < 150; i++) await journal.append(part([spec(i)]))
        await journal.ack('a', acknowledgement(1, 150))
        const first = await journal.replay(asked())
        expect(first).toMatchObject({ until: at(150), more: true })
        const { last = 0 } = await journal.append(part([spec(200)]))
        await ack('a', 151, last - base)
        const rest = await walk(asked({ after: first.through, until: first.until }))
        expect(first.entries + rest).toBe(150)
      })

      it('is refused whole at half of the limit of pending bytes, and for an unknown sink', async () => {
        await reopen({ keepDeliveredBytes: 2 ** 20, maxBytes: 200 })
        await journal.append(part([spec(1)]))
        await journal.ack('a', acknowledgement(1, 1))
        await expect(journal.replay(asked())).rejects.toMatchObject({ code: 'journal_full' })
        // The other half is live reading's.
        expect(journal.stats().full).toBe(false)
        await expect(journal.replay(asked({ sink: 'c' }))).rejects.toMatchObject({ code: 'misconfigured' })
        expect(await journal.take('a', plenty)).toBeUndefined()
      })
    })

    describe('resending entries for one sink', () => {
      const DAY = Math.floor(START_US / 86_400_000_000)
      const entry = (value: string) => ({ drop: [], put: [{ name: 'replay:a', value }] })
      const again = (entries: Entries, value = '1', more: Partial<Resend> = {}): Resend => ({
        ...{ sink: 'a', stream: audit, entries, runAt: 77, state: entry(value) },
        ...more,
      })
      beforeEach(async () => reopen({ keepDeliveredBytes: 2 ** 20 }))

      it('appends known entries too: marked, for its sink only, with no dedup key and no count as new', async () => {
        await journal.append(part([spec(1), spec(2)]))
        for (const sink of ['a', 'b']) await journal.ack(sink, acknowledgement(1, 2))
        const before = await journal.counts({ fromDay: 0, toDay: 1e7 })
        const entries = entriesOf([spec(1), spec(2), spec(3)])
        await journal.resend(again(entries))
        const batch = await journal.take('a', plenty)
        expect(batch).toMatchObject({ first: at(3), last: at(5) })
        expect(batch?.slices[0]).toMatchObject({ replay: true, onlySink: 'a', appendedAt: 77 })
        expect(rawsOf(batch).slice(0, 2)).toEqual(rawsOf(await journal.range(at(1), at(2))))
        expect([...(await journal.known(audit, entries))]).toEqual([1, 1, 0])
        expect(await journal.counts({ fromDay: 0, toDay: 1e7 })).toEqual(before)
        expect(await journal.state.get('replay:a')).toBe('1')
        expect(await journal.append(part([spec(2), spec(3)]))).toMatchObject({ added: 1, known: 1 })
      })

      it('stores entries and state entries together or not at all, and without entries only the state', async () => {
        await reopen({ keepDeliveredBytes: 2 ** 20, maxBytes: 200 })
        await journal.resend(again(entriesOf([spec(1), spec(2)]), '1'))
        await expect(journal.resend(again(entriesOf([spec(3)]), '2'))).rejects.toMatchObject({
          code: 'journal_full',
        })
        expect(await journal.state.get('replay:a')).toBe('1')
        await journal.resend(again(entriesOf([]), '3'))
        expect(await journal.state.get('replay:a')).toBe('3')
        await expect(journal.resend(again(entriesOf([]), '4', { sink: 'c' }))).rejects.toMatchObject({
          code: 'misconfigured',
        })
      })

      it('uses the version of the content: the known one, or the one it would get', async () => {
        await journal.append(part([spec(1), spec(2, { body: 'one' })], { stream: usage }))
        await journal.append(part([spec(2, { body: 'two' })], { stream: usage }))
        await journal.ack('a', acknowledgement(1, 3))
        const contents = [spec(1), spec(2, { body: 'two' }), spec(2, { body: 'three' }), spec(3)]
        await journal.resend(again(entriesOf(contents), '1', { stream: usage }))
        const entries = (await journal.take('a', plenty))?.slices[0]?.entries
        expect([0, 1, 2, 3].map((i) => entries?.version(i))).toEqual([0, 2, 3, 0])
        expect(await journal.append(part([spec(2, { body: 'three' })], { stream: usage }))).toMatchObject({
          added: 1,
        })
      })

      it('does not change the count of stored entries per day, pending or not', async () => {
        const next = spec(3, { at: START_US + 86_400_000_000 })
        await journal.append(part([spec(1), spec(2), next]))
        await journal.ack('a', acknowledgement(1, 2))
        await journal.resend(again(entriesOf([spec(1)])))
        expect(await journal.storedDays(undefined)).toMatchObject({
          rows: [
            { stream: audit, day: DAY, count: 2 },
            { stream: audit, day: DAY + 1, count: 1 },
          ],
        })
      })

      it('a replay from the journal leaves out the days to be read from the API, and counts the others by day', async () => {
        const next = spec(3, { at: START_US + 86_400_000_000 })
        await journal.append(part([spec(1), spec(2), next]))
        await journal.ack('a', acknowledgement(1, 3))
        const query = {
          ...{ sink: 'a', fromUs: 0, toUs: Infinity, sources: ['audit'] as const, runAt: 1, dryRun: false },
          ...{ after: 0, until: undefined },
        }
        const leave = [{ stream: audit, fromDay: DAY, toDay: DAY + 1 }]
        expect(await journal.replay({ ...query, dryRun: true })).toMatchObject({
          days: [
            { stream: audit, day: DAY, count: 2 },
            { stream: audit, day: DAY + 1, count: 1 },
          ],
        })
        expect(await journal.replay({ ...query, leave })).toMatchObject({ entries: 1 })
        expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(3)])
        const others = [{ ...leave[0], stream: usage, fromDay: DAY, toDay: DAY + 2 }]
        expect(await journal.replay({ ...query, dryRun: true, leave: others })).toMatchObject({ entries: 3 })
      })
    })

    describe('delivery accounts', () => {
      const DAY = Math.floor(START_US / 86_400_000_000)
      const rowsOf = async (sink: string) => {
        const { rows } = await accountReport(journal, { fromDay: 0, toDay: 1e7 }, [sink])
        return rows.map(({ stream, day, ...rest }) => ({ source: stream.source, day: day - DAY, ...rest }))
      }
      const row = (rest: object) => ({
        ...{ sink: 'a', source: 'audit', day: 0, kept: 0, before: 0, accepted: 0, filtered: 0 },
        ...{ dead_lettered: 0, dropped: 0, pending: 0, replayed: 0, missing: 0 },
        ...rest,
      })
      const accounts = (accepted: number, filtered = 0, replayed = 0, day = 0) => [
        { stream: audit, day: DAY + day, accepted, filtered, replayed },
      ]
      const second = (n: number) => spec(n, { at: START_US + 86_400_000_000 + n })

      it('balance by day: each stored entry is accepted, filtered, a dead letter, dropped or pending', async () => {
        await journal.append(part([spec(1), spec(2), spec(3), second(4), second(5)]))
        expect(await rowsOf('a')).toEqual([
          row({ kept: 3, pending: 3 }),
          row({ day: 1, kept: 2, pending: 2 }),
        ])
        await journal.ack('a', {
          ...{ first: at(1), through: at(4), accounts: [...accounts(1, 1), ...accounts(1, 0, 0, 1)] },
          rejected: [{ seq: at(3), code: 'refused', reason: 'no' }],
        })
        expect(await rowsOf('a')).toEqual([
          row({ kept: 3, accepted: 1, filtered: 1, dead_lettered: 1 }),
          row({ day: 1, kept: 2, accepted: 1, pending: 1 }),
        ])
        await reopen()
        expect((await rowsOf('a'))[0]).toEqual(row({ kept: 3, accepted: 1, filtered: 1, dead_lettered: 1 }))
      })

      it('count a retried dead letter as pending, and a dropped one as dropped', async () => {
        await journal.append(part([spec(1), spec(2)]))
        const rejected = [rejection(1), rejection(2)]
        await journal.ack('a', { first: at(1), through: at(2), rejected, accounts: [] })
        const [first, second] = (await journal.deadLetters({})).map(({ id }) => id)
        await journal.retryDeadLetters({ ids: [first ?? 0] })
        await journal.dropDeadLetters({ ids: [second ?? 0] })
        expect(await rowsOf('a')).toEqual([row({ kept: 2, dropped: 1, pending: 1 })])
        await journal.ack('a', { first: at(3), through: at(3), rejected: [], accounts: accounts(1) })
        expect(await rowsOf('a')).toEqual([row({ kept: 2, dropped: 1, accepted: 1 })])
        expect(await rowsOf('b')).toEqual([row({ sink: 'b', kept: 2, pending: 2 })])
      })

      it('count replayed entries apart, also rejected ones', async () => {
        await reopen({ keepDeliveredBytes: 2 ** 20 })
        await journal.append(part([spec(1), spec(2)]))
        await journal.ack('a', { first: at(1), through: at(2), rejected: [], accounts: accounts(2) })
        const span = { fromUs: 0, toUs: 1e18, runAt: 1, dryRun: false, after: 0, until: undefined }
        await journal.replay({ ...span, sink: 'a', sources: ['audit'] })
        expect(await rowsOf('a')).toEqual([row({ kept: 2, accepted: 2 })])
        const rejected = [{ seq: at(4), code: 'refused', reason: 'no' }]
        await journal.ack('a', { first: at(3), through: at(4), rejected, accounts: accounts(0, 0, 1) })
        expect(await rowsOf('a')).toEqual([row({ kept: 2, accepted: 2, replayed: 1 })])
        await journal.retryDeadLetters({})
        expect((await journal.take('a', plenty))?.slices[0]?.replay).toBe(true)
        expect(await rowsOf('a')).toEqual([row({ kept: 2, accepted: 2, replayed: 1 })])
      })

      it('count entries stored before the sink existed as before its time', async () => {
        await journal.append(part([spec(1), spec(2)]))
        for (const sink of ['a', 'b']) await journal.ack(sink, acknowledgement(1, 2))
        while (await journal.prune());
        await journal.append(part([spec(3)]))
        await reopen({ sinks: ['a', 'b', 'c'] })
        expect(await rowsOf('c')).toEqual([row({ sink: 'c', kept: 3, before: 2, pending: 1 })])
      })

      it('do not count ranges acknowledged out of order as pending', async () => {
        await journal.append(part([spec(1), spec(2), spec(3)]))
        await journal.ack('a', { first: at(2), through: at(2), rejected: [], accounts: accounts(1) })
        expect(await rowsOf('a')).toEqual([row({ kept: 3, accepted: 1, pending: 2 })])
      })
    })

    describe('pruning', () => {
      const old = 40 * DAY_MS

      it('never drops pending entries, and keeps delivered chunks up to the limit', async () => {
        const size = entriesOf([spec(1)]).rawBytes(0)
        await reopen({ keepDeliveredBytes: 2 * size })
        for (let n = 1; n <= 6; n++) await journal.append(part([spec(n)]))
        await ack('a', 1, 6)
        while (await journal.prune()) continue
        expect(idsOf(await journal.take('b', plenty))).toEqual([1, 2, 3, 4, 5, 6].map(uuid))
        await ack('b', 1, 5)
        while (await journal.prune()) continue
        expect(idsOf(await journal.range(at(4), at(6)))).toEqual([4, 5, 6].map(uuid))
        await expect(journal.range(at(3), at(3))).rejects.toMatchObject({ code: 'journal_corrupt' })
      })

      it('removes a dedup key once it is older than the retention', async () => {
        await journal.append(part([spec(1)]))
        for (let day = 1; day <= 2; day++) {
          clock.nowMs = START_US / 1000 + old + day * DAY_MS
          await journal.append(part([{ id: uuid(100 + day), at: clock.nowMs * 1000 }]))
        }
        while (await journal.prune()) continue
        expect(await journal.append(part([{ id: uuid(102), at: clock.nowMs * 1000 }]))).toMatchObject({
          known: 1,
        })
        expect(await journal.append(part([spec(1)]))).toMatchObject({ added: 1 })
      })

      it('keeps the keys of entries read just now, even if the entries are older than the retention', async () => {
        clock.nowMs = START_US / 1000 + old
        await journal.append(part([spec(1), spec(2)]))
        while (await journal.prune()) continue
        expect(await journal.append(part([spec(2), spec(3)]))).toMatchObject({ added: 1, known: 1 })
        clock.nowMs += 20 * DAY_MS
        await reopen()
        while (await journal.prune()) continue
        expect(await journal.append(part([spec(2), spec(3)]))).toMatchObject({ added: 0, known: 2 })
      })
    })

    describe('state', () => {
      it('is stored and replaced', async () => {
        expect(await journal.state.get('x')).toBeUndefined()
        await journal.state.put('x', '1')
        await journal.state.put('x', '2')
        await reopen()
        expect(await journal.state.get('x')).toBe('2')
      })

      it('is listed by name prefix, in order, up to the limit', async () => {
        for (const name of ['a:10', 'a:02', 'b:1', 'a', 'a:', 'a;1', 'A:1'])
          await journal.state.put(name, `of ${name}`)
        expect(await journal.state.list('a:', 10)).toEqual([
          { name: 'a:', value: 'of a:' },
          { name: 'a:02', value: 'of a:02' },
          { name: 'a:10', value: 'of a:10' },
        ])
        expect((await journal.state.list('a:', 2)).map(({ name }) => name)).toEqual(['a:', 'a:02'])
        expect(await journal.state.list('a:1', 10)).toEqual([{ name: 'a:10', value: 'of a:10' }])
        expect(await journal.state.list('none', 10)).toEqual([])
      })

      it('a scope sees only its own entries, without the prefix', async () => {
        const scope = journal.state.scope('a')
        await scope.put('x', '1')
        await scope.scope('b').change({ drop: [], put: [{ name: 'y', value: '2' }] })
        await journal.state.put('z', '3')
        expect(await journal.state.get('a:x')).toBe('1')
        expect(await scope.get('b:y')).toBe('2')
        expect(await scope.list('', 10)).toEqual([
          { name: 'b:y', value: '2' },
          { name: 'x', value: '1' },
        ])
        await scope.change({ drop: ['x', 'z'], put: [] })
        expect((await journal.state.list('', 100)).map(({ name }) => name)).toEqual(
          expect.arrayContaining(['a:b:y', 'z']),
        )
        expect(await scope.get('x')).toBeUndefined()
        await journal.append(part([], { state: [scope.entry('x', '4')] }))
        expect(await scope.get('x')).toBe('4')
      })

      it('of two concurrent putIfAbsent calls one wins, and both return its value', async () => {
        const both = [journal.state.putIfAbsent('x', '1'), journal.state.putIfAbsent('x', '2')]
        const [first, second] = await Promise.all(both)
        expect(first).toBe(second)
        expect(await journal.state.get('x')).toBe(first)
      })

      it('compareAndSet replaces a value only if it is the expected one', async () => {
        expect(await journal.state.compareAndSet('x', '1', '2')).toBe(false)
        expect(await journal.state.compareAndSet('x', undefined, '1')).toBe(true)
        expect(await journal.state.compareAndSet('x', undefined, '2')).toBe(false)
        expect(await journal.state.compareAndSet('x', '1', '2')).toBe(true)
        expect(await journal.state.get('x')).toBe('2')
      })

      it('a change drops, then puts, and is stored whole or not at all', async () => {
        await journal.state.put('x:1', 'old')
        await journal.state.put('x:2', 'old')
        const before = await journal.state.list('x:', 10)
        const after = [
          { name: 'x:2', value: 'new' },
          { name: 'x:3', value: 'new' },
        ]
        await failingAtEachCommit(
          () => journal.state.change({ drop: ['x:1', 'x:2', 'x:none'], put: after }),
          async () => expect(await journal.state.list('x:', 10)).toEqual(before),
        )
        expect(await journal.state.list('x:', 10)).toEqual(after)
      })

      it('state computed from the result of an append is stored with it or not at all', async () => {
        const reported: Appended[] = []
        const state = (appended: Appended) => {
          reported.push(appended)
          return [{ name: 'part', value: `${appended.added} ${appended.known}` }]
        }
        await journal.append(part([spec(1)]))
        const more = part([spec(1), spec(2), spec(3)], { state })
        shard.failCommit(1)
        await expect(journal.append(more)).rejects.toThrow()
        shard.failCommit(0)
        expect(await journal.state.get('part')).toBeUndefined()
        const appended = await journal.append(more)
        expect(appended).toMatchObject(reported.at(-1) ?? {})
        expect(await journal.state.get('part')).toBe('2 1')
      })

      it('state passed to an acknowledgement is stored with it or not at all', async () => {
        await journal.append(part([spec(1), spec(2), spec(3)]))
        const state = [{ name: 'seen:1', value: 'one' }]
        await journal.ack('a', { ...acknowledgement(1, 2), state })
        expect(await journal.state.list('seen:', 10)).toEqual(state)
        const more = [{ name: 'seen:2', value: 'two' }]
        await expect(journal.ack('a', { ...acknowledgement(3, 99), state: more })).rejects.toThrow()
        shard.failCommit(1)
        await expect(journal.ack('a', { ...acknowledgement(3, 3), state: more })).rejects.toThrow()
        shard.failCommit(0)
        await reopen()
        expect(await journal.state.list('seen:', 10)).toEqual(state)
        expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(3)])
      })
    })

    describe('ownership', () => {
      it('a second opener is refused and changes nothing', async () => {
        await journal.append(part([spec(1)], { cursor: 'c1' }))
        await expect(shard.open(settingsOf({ sinks: ['other'] }))).rejects.toBeInstanceOf(ConnectorError)
        expect(await journal.append(part([spec(2)]))).toMatchObject({ added: 1 })
        await reopen()
        expect(journal.stats()).toMatchObject({ unconfigured: [], entries: 2 })
      })

      it('a journal that another process took over writes nothing, and its successor continues', async () => {
        await journal.append(part([spec(1)], { cursor: 'c1' }))
        await ack('a', 1, 1)
        const stale = journal
        journal = await shard.succeed(stale, settingsOf())
        await expect(stale.append(part([spec(2)], { cursor: 'c2' }))).rejects.toThrow()
        await expect(stale.ack('b', acknowledgement(1, 1))).rejects.toThrow()
        await expect(stale.recordInFlight('b', inFlight(1, 1))).rejects.toThrow()
        await expect(stale.state.put('x', '1')).rejects.toThrow()
        expect(await journal.cursor(audit)).toBe('c1')
        expect(await journal.state.get('x')).toBeUndefined()
        expect(await journal.inFlightBatches('b')).toEqual([])
        expect(await journal.take('a', plenty)).toBeUndefined()
        expect(idsOf(await journal.take('b', plenty))).toEqual([uuid(1)])
        expect(await journal.append(part([spec(2)], { cursor: 'c3' }))).toMatchObject({ added: 1 })
      })

      it('a sink is unknown before it is registered, and sinks are registered together or not at all', async () => {
        await journal.append(part([spec(1)]))
        await expect(journal.take('c', plenty)).rejects.toThrow('No sink named c')
        shard.failCommit(1)
        await expect(journal.registerSinks(['b', 'c'])).rejects.toThrow()
        shard.failCommit(0)
        expect(journal.stats().sinks.map(({ sink }) => sink)).toEqual(['a', 'b'])
        await journal.registerSinks(['b', 'c'])
        expect(idsOf(await journal.take('c', plenty))).toEqual([uuid(1)])
        expect(journal.stats()).toMatchObject({ unconfigured: ['a'] })
      })
    })

    it('for every interleaving each sink gets each new entry exactly once, in order', async () => {
      const sinks = ['a', 'b', 'c']
      const sink = fc.constantFrom(...sinks)
      const step = fc.oneof(
        fc.record({ do: fc.constant('append' as const), ids: fc.array(fc.nat(60), { maxLength: 12 }) }),
        fc.record({ do: fc.constant('deliver' as const), sink, max: fc.integer({ min: 1, max: 9 }) }),
        fc.record({ do: fc.constant('ahead' as const), sink, skip: fc.integer({ min: 1, max: 5 }) }),
        fc.record({ do: fc.constant('prune' as const) }),
        fc.record({ do: fc.constant('reopen' as const) }),
      )
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
          const fresh = await newShard()
          const openFresh = () =>
            fresh.open({
              maxBytes: 2 ** 30,
              keepKeysMs: DAY_MS * 999,
              keepDeliveredBytes: 300,
              sinks,
              clock,
              log: logOf(),
            })
          let run = await openFresh()
          const begin = run.stats().sinks[0]?.position ?? NaN
          const order: string[] = []
          const seen = new Map(sinks.map((name) => [name, new Map<number, string>()]))
          const deliver = async (name: string, max: number, after?: number) => {
            const batch = await run.take(name, { maxEntries: max, maxBytes: 400 }, { after })
            if (!batch) return false
            idsOf(batch).forEach((id, i) => {
              expect(seen.get(name)?.has(batch.first + i)).toBe(false)
              seen.get(name)?.set(batch.first + i, id)
            })
            await run.ack(name, { first: batch.first, through: batch.last, rejected: [] })
            return true
          }
          for (const each of steps) {
            if (each.do === 'append') {
              const unseen = [...new Set(each.ids.map(uuid))].filter((id) => !order.includes(id))
              const { added } = await run.append(part(each.ids.map((n) => spec(n))))
              expect(added).toBe(unseen.length)
              order.push(...unseen)
            } else if (each.do === 'deliver') await deliver(each.sink, each.max)
            else if (each.do === 'ahead') {
              const at = run.stats().sinks.find((one) => one.sink === each.sink)?.position ?? 0
              await deliver(each.sink, 2, at + each.skip)
            } else if (each.do === 'prune') await run.prune()
            else {
              await run.close()
              run = await openFresh()
            }
          }
          for (const name of sinks) {
            while (await deliver(name, 7)) continue
            const inOrder = [...(seen.get(name) ?? [])].sort(([x], [y]) => x - y)
            expect(inOrder).toEqual(order.map((id, i) => [begin + i + 1, id]))
          }
          expect(run.stats()).toMatchObject({ entries: 0, bytes: 0 })
          await run.close()
          await fresh.remove()
        }),
        { numRuns: 60 },
      )
    })
  })
}
