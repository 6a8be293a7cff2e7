// The board tells the truth: in JSON, in metrics and in one sentence.
import { describe, expect, it } from 'vitest'
import { ConnectorError } from '../../../src/model/errors.ts'
import { fakeStats, openHouse, settle, startAt, testClock } from './board-fixture.ts'
import { Secret } from '../../../src/model/secret.ts'
import { openBoard } from '../../../src/ops/board.ts'
import { openMetrics } from '../../../src/ops/metrics.ts'
import type { BackfillStatus } from '../../../src/ops/status.ts'
import { spanText } from '../../../src/ops/words.ts'

const refused = new ConnectorError('unreachable', 'receiver refused the connection')
const badKey = new ConnectorError('unauthorized', 'the API refused the key: put a valid one into the file.')

describe('/status', () => {
  it('has the shape of the contract, with null for what has not happened yet', () => {
    const { board } = openHouse()
    expect(JSON.parse(JSON.stringify(board.status()))).toEqual({
      version: '1.2.3',
      started_at: '2026-11-21T10:00:00.000Z',
      configured_at: '2026-11-21T10:00:00.000Z',
      reported_at: '2026-11-21T10:00:00.000Z',
      ok: true,
      sentence: 'acme audit is starting',
      workspaces: [
        {
          name: 'acme',
          sources: [
            {
              name: 'audit',
              state: 'starting',
              last_success_at: null,
              caught_up_at: null,
              head_at: null,
              cursor_at: null,
              interval_seconds: 30,
              lag_seconds: 0,
              progress: null,
              new_entries: 0,
              filtered_entries: 0,
              gaps: 0,
              last_gap_at: null,
              findings: 0,
              error: null,
            },
          ],
        },
      ],
      sinks: [
        {
          name: 'archive',
          type: 'file',
          assurance: 'stored',
          state: 'starting',
          owed_entries: 0,
          lag_seconds: 0,
          last_success_at: null,
          accepted_entries: 0,
          filtered_entries: 0,
          dead_letters: 0,
          error: null,
        },
      ],
      journal: {
        entries: 0,
        bytes: 0,
        capacity_bytes: 2147483648,
        paused: false,
        lost: null,
        quarantined: 0,
        gaps: 0,
        findings: 0,
        strangers: [],
      },
      config_refused_at: null,
      config_refused_why: null,
      warnings: [],
      findings: [],
      backfills: [],
      replays: [],
      errors: [],
      history: { step_seconds: 30, read: [0], delivered: [0], owed: [0] },
    })
  })

  it('a sink that fails is behind by the age of the oldest entry it owes, with the reason', () => {
    const house = openHouse()
    settle(house)
    house.owe(12, startAt)
    house.clock.pass(14_200)
    house.sink.state('failing', refused)
    const { ok, sentence, sinks } = house.board.status()
    expect(ok).toBe(false)
    expect(sentence).toBe('archive is 14 s behind: receiver refused the connection')
    expect(sinks[0]).toMatchObject({ state: 'failing', owed_entries: 12, lag_seconds: 14.2 })
    expect(sinks[0]?.error).toEqual({
      code: 'unreachable',
      message: 'receiver refused the connection',
      since: '2026-11-21T10:00:14.200Z',
    })
  })

  it('a part that tries again stays failing since the first time, until it succeeds', () => {
    const { clock, board, sink } = openHouse()
    sink.state('failing', refused)
    clock.pass(5000)
    sink.state('sending')
    expect(board.status().sinks[0]?.state).toBe('failing')
    sink.state('held', badKey)
    expect(board.status().sinks[0]?.error).toMatchObject({
      code: 'unauthorized',
      since: '2026-11-21T10:00:00.000Z',
    })
    sink.state('sending')
    sink.success()
    expect(board.status().sinks[0]).toMatchObject({ state: 'sending', error: null })
  })

  it('a source that waits for its next try, or fails anew, fails since the first time', () => {
    const house = openHouse()
    settle(house)
    const state = () => house.board.status().workspaces[0]?.sources[0]
    house.source.state('failing', refused)
    for (const next of ['idle', 'waiting', 'reading'] as const) {
      house.source.state(next)
      expect(state()).toMatchObject({ state: 'failing', error: { code: 'unreachable' } })
    }
    house.source.success()
    expect(state()).toMatchObject({ state: 'reading', error: null })
  })

  it('a limit that is waited out is no failure, and its reason stays to be read', () => {
    const house = openHouse()
    settle(house)
    house.source.state('failing', new ConnectorError('rate_limited', 'the API said 429'))
    house.source.state('waiting')
    house.source.state('reading')
    const { ok, workspaces } = house.board.status()
    expect(ok).toBe(true)
    expect(workspaces[0]?.sources[0]).toMatchObject({ state: 'waiting', error: { code: 'rate_limited' } })
  })

  it('the reason of a pause ends with the pause', () => {
    const house = openHouse()
    settle(house)
    house.source.state('paused', new ConnectorError('journal_full', 'the journal is full'))
    house.source.state('idle')
    expect(house.board.status()).toMatchObject({ ok: true, workspaces: [{ sources: [{ error: null }] }] })
  })

  it('a pause for the disk lasts over each try, since the first, until something is kept', () => {
    const house = openHouse()
    settle(house)
    house.clock.pass(1_000)
    const source = () => house.board.status().workspaces[0]?.sources[0]
    for (const mib of [3, 2, 1]) {
      house.source.state('paused', new ConnectorError('disk_full', `make room: ${mib} MiB are free`))
      house.clock.pass(60_000)
      house.source.state('reading')
      const error = {
        code: 'disk_full',
        message: `make room: ${mib} MiB are free`,
        since: '2026-11-21T10:00:01.000Z',
      }
      expect(source()).toMatchObject({ state: 'paused', error })
      expect(house.board.status().journal.paused).toBe(true)
    }
    const none = { late: 0, known: 0, filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }
    house.source.appended({ ...none, added: 5 })
    expect(source()).toMatchObject({ state: 'reading', error: null })
    expect(house.board.status().journal.paused).toBe(false)
  })

  it('what was kept of a read that fails does not make it well, and a pause for the bound of the journal ends what failed before', () => {
    const house = openHouse()
    settle(house)
    const source = () => house.board.status().workspaces[0]?.sources[0]
    house.source.state('failing', refused)
    house.clock.pass(1_000)
    const none = { late: 0, known: 0, filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }
    house.source.appended({ ...none, added: 5 })
    expect(source()).toMatchObject({ state: 'failing', error: { since: '2026-11-21T10:00:00.000Z' } })
    house.source.state('paused')
    expect(source()).toMatchObject({ state: 'paused', error: null })
  })

  it('a sink whose receiver refuses all by name has recovered', () => {
    const house = openHouse()
    settle(house)
    house.sink.state('failing', refused)
    house.sink.state('sending')
    house.sink.settled({ accepted: 0, deadLettered: 1, filtered: 0 })
    expect(house.board.status().sinks[0]).toMatchObject({ state: 'sending', error: null })
    house.sink.state('held', badKey)
    house.sink.state('idle')
    expect(house.board.status().ok).toBe(true)
  })

  it('what fails or is held tells when it is tried next, until that try is under way', () => {
    const house = openHouse()
    settle(house)
    const errors = () => {
      const { workspaces, sinks } = house.board.status()
      return [workspaces[0]?.sources[0]?.error, sinks[0]?.error]
    }
    const since = '2026-11-21T10:00:00.000Z'
    house.source.state('held', badKey, 42_000)
    house.sink.state('failing', refused, 7_000)
    expect(errors()).toMatchObject([
      { since, next_try_at: '2026-11-21T10:00:42.000Z' },
      { since, next_try_at: '2026-11-21T10:00:07.000Z' },
    ])
    house.clock.pass(42_000)
    house.source.state('reading')
    house.sink.state('sending')
    for (const error of errors()) expect(error).toEqual({ ...error, since, next_try_at: undefined })
    house.source.state('held', badKey, 60_000)
    expect(errors()[0]).toMatchObject({ since, next_try_at: '2026-11-21T10:01:42.000Z' })
  })

  it('a source that waits says whether anything was read since the start', () => {
    const house = openHouse()
    const sentence = () => house.board.status().sentence
    house.source.state('idle')
    expect(sentence()).toBe('acme audit waits for its first read')
    house.source.recalled({ readAt: startAt - 12_000, caughtUpAt: 0, gapAt: 0 })
    expect(sentence()).toBe('acme audit waits for its first read since the start, the last was 12 s ago')
    house.source.success()
    expect(sentence()).toBe('acme audit waits for its next read')
  })

  it('what an earlier process read stands until this one has read', () => {
    const house = openHouse()
    house.clock.pass(600_000)
    house.source.recalled({ readAt: startAt, caughtUpAt: startAt - 1000, gapAt: startAt - 2000 })
    house.source.state('idle')
    const told = () => house.board.status().workspaces[0]?.sources[0]
    expect(told()).toMatchObject({
      last_success_at: '2026-11-21T10:00:00.000Z',
      caught_up_at: '2026-11-21T09:59:59.000Z',
      ...{ gaps: 0, last_gap_at: '2026-11-21T09:59:58.000Z' },
    })
    house.source.gap(1)
    expect(told()).toMatchObject({ gaps: 1, last_gap_at: '2026-11-21T10:10:00.000Z' })
    house.source.success()
    expect(told()?.last_success_at).toBe('2026-11-21T10:10:00.000Z')
  })

  it('after a start live reading counts as far as when it had last read all, and not as far as where it last succeeded, until it tells itself', () => {
    const origin = { workspace: 'acme', source: 'audit' } as const
    const { board, source } = openHouse()
    expect(board.reading(origin)?.readTo()).toBeUndefined()
    expect(board.reading({ ...origin, source: 'history.usage' })).toBeUndefined()
    source.recalled({ readAt: startAt, caughtUpAt: 0, gapAt: 0 })
    expect(board.reading(origin)?.readTo()).toBeUndefined()
    source.recalled({ readAt: startAt, caughtUpAt: startAt - 5_000, gapAt: 0 })
    expect(board.reading(origin)?.readTo()).toBe((startAt - 5_000) * 1000)
    source.cursor(startAt * 1000 + 123_456)
    source.success()
    expect(board.reading(origin)?.readTo()).toBe(startAt * 1000 + 123_456)
  })

  it('after a reload the process is as old as before, and nothing is called caught up that was read before it', () => {
    const clock = testClock()
    const metrics = openMetrics({ version: '1.2.3', processMetrics: false })
    const startedAt = startAt - 3_600_000
    const board = openBoard({ clock, metrics, version: '1.2.3', startedAt, journalStats: () => fakeStats })
    const source = board.source({ workspace: 'acme', source: 'audit' }, 30_000)
    source.recalled({ readAt: startAt - 1, caughtUpAt: startAt - 1, gapAt: 0 })
    source.state('idle')
    expect(board.status()).toMatchObject({
      started_at: '2026-11-21T09:00:00.000Z',
      configured_at: '2026-11-21T10:00:00.000Z',
      sentence: 'acme audit waits for its first read since the reload, the last was 0 s ago',
    })
    source.caughtUp()
    expect(board.status().sentence).toBe('All caught up, nothing to deliver since the reload')
  })

  it('nothing is called caught up that only an earlier process has read', () => {
    const house = openHouse()
    const sentence = () => house.board.status().sentence
    house.source.recalled({ readAt: startAt - 1, caughtUpAt: startAt - 1, gapAt: 0 })
    expect(sentence()).toBe('acme audit is starting')
    house.source.state('idle')
    expect(sentence()).toBe('acme audit waits for its first read since the start, the last was 0 s ago')
    house.source.state('reading')
    expect(sentence()).toBe('acme audit is reading')
    house.source.caughtUp()
    expect(sentence()).toBe('All caught up, nothing to deliver since the start')
    settle(house)
    expect(sentence()).toBe('All caught up: last delivery 0 s ago')
  })

  it('who waits for a budget that a 429 holds says that, and until when, and else that it waits for its budget', () => {
    const house = openHouse()
    const { clock, metrics } = house
    const journalStats = () => house.journal.stats
    let limited: object = { limited_until: new Date(startAt + 54_000).toISOString() }
    const budget = () => [{ area: 'audit', used: 3, limit: 45, ...limited }]
    const board = openBoard({ clock, metrics, journalStats, version: '1', budget })
    const source = board.source({ workspace: 'acme', source: 'audit' })
    source.state('waiting')
    expect(board.status().sentence).toBe(
      `acme audit is starting, waiting: the API answered 429, and nothing is asked until ${new Date(startAt + 54_000).toISOString().slice(0, 19).replace('T', ' ')} UTC (54 s more)`,
    )
    limited = {}
    expect(board.status().sentence).toBe('acme audit is starting, waiting for its request budget')
  })

  it('a refused configuration comes first, and what follows it is no new sentence', () => {
    const house = openHouse()
    settle(house)
    house.board.refused(new ConnectorError('config_invalid', 'a.yaml:1:1: nonsense'))
    expect(house.board.status().sentence).toBe(
      'The changed configuration is refused, the old one goes on: a.yaml:1:1: nonsense; all caught up: last delivery 0 s ago',
    )
    expect(house.board.status().config_refused_why).toBe('a.yaml:1:1: nonsense')
    house.board.refused(new ConnectorError('config_invalid', 'a.yaml:1:1: one.\na.yaml:2:1: two\nthree'))
    expect(house.board.status().config_refused_why).toBe('a.yaml:1:1: one. (and more: the log has all of it)')
    house.board.refused(undefined)
    expect(house.board.status()).toMatchObject({ config_refused_at: null, config_refused_why: null })
  })

  it('what is to be mended though no part fails is told since when, until it is over, and leaves ok as it is', () => {
    const house = openHouse()
    settle(house)
    const secret = { code: 'secret_unread', about: 'acme api_key' } as const
    const message = 'acme api_key cannot be read again, and a restart would fail: gone'
    house.board.warn(secret, message)
    house.clock.pass(1000)
    house.board.warn(secret, message)
    const since = '2026-11-21T10:00:00.000Z'
    expect(house.board.status()).toMatchObject({
      ok: true,
      sentence: `${message}; all caught up: last delivery 1 s ago`,
      warnings: [{ ...secret, message, since }],
    })
    house.source.state('held', badKey)
    expect(house.board.status().sentence).toMatch(/^acme audit has been held for .*; acme api_key cannot/)
    house.board.warn(secret, undefined)
    expect(house.board.status().warnings).toEqual([])
  })

  it('a lost journal is told before the configuration that is refused because of it', () => {
    const house = openHouse()
    settle(house)
    house.board.journalLost('The journal is lost: a.db is gone')
    house.board.refused(new ConnectorError('config_invalid', 'journal.path: gone'))
    expect(house.board.status().sentence).toMatch(
      /^The journal is lost: .*; The changed configuration is refused/,
    )
  })

  it.each([1, 2])('a refused configuration is told beside %i that are at fault too', (count) => {
    const house = openHouse()
    settle(house)
    house.board.refused(new ConnectorError('config_invalid', 'a.yaml:1:1: nonsense'))
    house.source.state('held', badKey)
    if (count > 1) house.sink.state('held', badKey)
    expect(house.board.status().sentence).toMatch(
      /^The changed configuration is refused, the old one goes on; .*acme audit has been held/,
    )
  })

  it('a finding is told by its entry and its time, by nobody’s name', () => {
    const { board, journal } = openHouse()
    const origin = { workspace: 'acme', source: 'audit' } as const
    const found = { origin, kind: 'foreign_fetch', foundAt: startAt } as const
    journal.stats = {
      ...fakeStats,
      lastFindings: [
        { ...found, entryId: 'b', entryUs: (startAt - 1500) * 1000 },
        { ...found, entryId: 'a', entryUs: undefined },
      ],
    }
    const told = { ...origin, kind: 'foreign_fetch', found_at: '2026-11-21T10:00:00.000Z' }
    expect(board.status().findings).toEqual([
      { ...told, entry_id: 'b', entry_at: '2026-11-21T09:59:58.500Z' },
      { ...told, entry_id: 'a', entry_at: null },
    ])
  })

  it('a held source is named with its reason and since when', () => {
    const house = openHouse()
    settle(house)
    house.source.state('held', badKey)
    house.clock.pass(3 * 3_600_000)
    const { ok, sentence } = house.board.status()
    expect(ok).toBe(false)
    expect(sentence).toBe(
      'acme audit has been held for 3 h: the API refused the key: put a valid one into the file',
    )
  })

  it('a full journal is told with the sink that owes', () => {
    const house = openHouse()
    settle(house)
    house.sink.state('failing', refused)
    house.owe(12_345, startAt, { full: true })
    house.clock.pass(7_200_000)
    house.source.state('paused')
    const { ok, sentence, journal } = house.board.status()
    expect([ok, journal.paused]).toEqual([false, true])
    expect(sentence).toContain('Reading is paused because the journal is full: archive owes 12,345 entries')
    expect(sentence).toContain('the oldest for 2 h (receiver refused the connection)')
  })

  it('a full disk is told as what it is', () => {
    const house = openHouse()
    settle(house)
    house.source.state('paused', new ConnectorError('disk_full', 'no space left in /var/lib/auditferry'))
    expect(house.board.status()).toMatchObject({
      ok: false,
      sentence: 'Reading is paused: no space left in /var/lib/auditferry',
    })
  })

  it('a journal that the next start would not find is told before all else', () => {
    const house = openHouse()
    settle(house)
    house.board.journalLost('The journal is lost: a.db is gone')
    expect(house.board.status()).toMatchObject({
      ok: false,
      sentence: 'The journal is lost: a.db is gone',
      journal: { lost: 'The journal is lost: a.db is gone' },
    })
    house.board.journalLost(undefined)
    expect(house.board.status()).toMatchObject({ ok: true, journal: { lost: null } })
  })

  it('an assurance that grows is told as it is by then', () => {
    const house = openHouse()
    let assurance: 'received' | 'stored' = 'received'
    house.board.sink('siem', 'splunk_hec', () => assurance)
    const told = () => house.board.status().sinks.at(-1)?.assurance
    expect(told()).toBe('received')
    assurance = 'stored'
    expect(told()).toBe('stored')
  })

  it('only a house in order is called caught up', () => {
    const house = openHouse()
    settle(house)
    house.clock.pass(14_000)
    expect(house.board.status()).toMatchObject({
      ok: true,
      sentence: 'All caught up: last delivery 14 s ago',
    })
    house.owe(1000, startAt - 600_000)
    expect(house.board.status().sentence).toBe('archive is 10 min behind and catching up, 1,000 entries owed')
  })

  it('what is owed beyond its linger is not called caught up, before it is worth an alarm either', () => {
    const house = openHouse()
    settle(house)
    house.board.sink('bucket', 's3', 'stored', 300_000)
    const owe = (sink: string, seconds: number) =>
      (house.journal.stats = {
        ...fakeStats,
        sinks: [
          { sink, position: 1, owedEntries: 7, oldestOwedAt: startAt - seconds * 1000, deadLetters: 0 },
        ],
      })
    const sentence = () => house.board.status().sentence
    owe('archive', 1)
    expect(sentence()).toBe('All caught up: last delivery 0 s ago')
    owe('archive', 2)
    expect(sentence()).toBe('7 entries on the way to archive, the oldest for 2 s')
    owe('bucket', 299)
    expect(sentence()).toBe('All caught up: last delivery 0 s ago')
    owe('bucket', 302)
    expect(sentence()).toBe('7 entries on the way to bucket, the oldest for 5 min')
    owe('bucket', 360)
    expect(sentence()).toBe('bucket is 6 min behind and catching up, 7 entries owed')
  })

  it('before the first delivery, what waits for its linger is named', () => {
    const house = openHouse()
    settle(house)
    const { board, journal, metrics, clock } = house
    const fresh = openBoard({ clock, metrics, journalStats: () => journal.stats, version: '1.2.3' })
    fresh.sink('bucket', 's3', 'stored', 300_000)
    journal.stats = {
      ...fakeStats,
      sinks: [{ sink: 'bucket', position: 1, owedEntries: 48, oldestOwedAt: startAt, deadLetters: 0 }],
    }
    expect(fresh.status().sentence).toBe('All caught up, not due for delivery yet: 48 entries')
    expect(board.status().sentence).toBe('All caught up: last delivery 0 s ago')
  })

  it('possible gaps and what is quarantined are told even when all is well', () => {
    const house = openHouse()
    settle(house)
    const told = (more: Partial<typeof fakeStats>) => {
      house.journal.stats = { ...fakeStats, ...more }
      return house.board.status().sentence
    }
    const calm = 'All caught up: last delivery 0 s ago'
    expect(told({ gaps: 1 })).toBe(`${calm}; 1 possible gap`)
    expect(told({ quarantined: 5 })).toBe(`${calm}; 5 quarantined`)
    const sinks = [{ sink: 'archive', position: 1, owedEntries: 0, oldestOwedAt: undefined, deadLetters: 2 }]
    const all = { gaps: 2, quarantined: 1_200, sinks }
    expect(told(all)).toBe(`${calm}; 2 possible gaps, 1,200 quarantined; 2 dead letters at archive`)
  })

  it('foreign fetches are told for a day after the last was found, beside whatever is wrong', () => {
    const house = openHouse()
    settle(house)
    const origin = { workspace: 'acme', source: 'audit' } as const
    const found = { origin, kind: 'foreign_fetch', foundAt: startAt } as const
    const lastFindings = [
      { ...found, entryId: 'b', entryUs: (startAt - 90_000) * 1000 },
      { ...found, entryId: 'a', entryUs: (startAt - 60_000) * 1000 },
    ]
    const told = () => house.board.status().sentence
    house.journal.stats = { ...fakeStats, findings: 1, lastFindings: lastFindings.slice(1), quarantined: 5 }
    const calm = 'All caught up: last delivery 0 s ago'
    expect(told()).toBe(`${calm}; 1 foreign fetch, the last 2026-11-21 09:59:00 UTC; 5 quarantined`)
    house.journal.stats = { ...fakeStats, findings: 12, lastFindings }
    expect(told()).toBe(`${calm}; 12 foreign fetches, the last 2026-11-21 09:59:00 UTC`)
    house.source.state('held', badKey)
    house.clock.pass(24 * 3_600_000)
    expect(told()).toMatch(
      /^acme audit has been held.*; 12 foreign fetches, the last 2026-11-21 09:59:00 UTC$/,
    )
    house.clock.pass(3_600_000)
    expect(told()).not.toMatch(/foreign/)
  })

  it('dead letters are told even when all is well', () => {
    const house = openHouse()
    settle(house)
    const sinks = [{ sink: 'archive', position: 1, owedEntries: 0, oldestOwedAt: undefined, deadLetters: 1 }]
    house.journal.stats = { ...fakeStats, sinks }
    expect(house.board.status().sentence).toBe(
      'All caught up: last delivery 0 s ago; 1 dead letter at archive',
    )
  })

  it('a source that has silently died is told as failing', () => {
    const house = openHouse()
    settle(house)
    house.clock.pass(120_000)
    expect(house.board.status().ok).toBe(true)
    house.clock.pass(1)
    const { ok, workspaces } = house.board.status()
    expect(ok).toBe(false)
    expect(workspaces[0]?.sources[0]).toMatchObject({ state: 'failing', error: { code: 'timeout' } })
    house.source.success()
    expect(house.board.status().ok).toBe(true)
  })

  it('a clock that is set right by a day makes no source a dead one', () => {
    const house = openHouse()
    settle(house)
    const elapsed = house.clock.elapsed()
    house.clock.pass(86_400_000)
    house.clock.elapsed = () => elapsed
    expect(house.board.status().ok).toBe(true)
  })

  it('lag is head minus cursor by the entries’ own times, and 0 when caught up', async () => {
    const { board, source, metrics } = openHouse()
    const lag = () => board.status().workspaces[0]?.sources[0]?.lag_seconds
    source.head(5_000_000_000_000_000)
    source.cursor(4_999_999_997_500_000)
    expect(lag()).toBe(2.5)
    source.caughtUp()
    expect(lag()).toBe(0)
    source.head(5_000_000_010_000_000)
    expect(lag()).toBe(12.5)
    expect(await metrics.render()).toContain(
      'auditferry_source_lag_seconds{workspace="acme",source="audit"} 12.5',
    )
    expect(board.status().workspaces[0]?.sources[0]?.head_at).toBe('2128-06-11T08:53:30.000Z')
  })

  it('while reading is paused nobody looks at the head: from when the next read was due lag goes on with the clock, from where all was read', async () => {
    const house = openHouse()
    const lag = () => house.board.status().workspaces[0]?.sources[0]?.lag_seconds
    settle(house)
    house.clock.pass(1_000)
    house.source.state('paused')
    expect(lag()).toBe(0)
    house.clock.pass(7_199_000)
    expect(lag()).toBe(7_200)
    expect(await house.metrics.render()).toContain(
      'auditferry_source_lag_seconds{workspace="acme",source="audit"} 7200',
    )
    house.source.state('reading')
    expect(lag()).toBe(0)
  })

  it('a pause in the middle of a backlog tells no less than what is known, also right after a restart', () => {
    const house = openHouse()
    const lag = () => house.board.status().workspaces[0]?.sources[0]?.lag_seconds
    house.source.recalled({ readAt: startAt - 60_000, caughtUpAt: startAt - 3_600_000, gapAt: 0 })
    house.source.state('paused')
    expect(lag()).toBe(3_600)
    house.source.cursor((startAt - 600_000) * 1000)
    expect(lag()).toBe(600)
    house.source.head((startAt + 60_000) * 1000)
    expect(lag()).toBe(660)
  })

  it('a journal that has room again is no full one while its readers have not looked yet', () => {
    const house = openHouse()
    settle(house)
    house.source.state('paused', new ConnectorError('journal_full', 'the journal is full'))
    expect(house.board.status()).toMatchObject({ ok: true, journal: { paused: false } })
  })

  it('a backlog tells how far it is read, from where it began to the head', () => {
    const { board, source } = openHouse()
    const progress = () => board.status().workspaces[0]?.sources[0]?.progress
    expect(progress()).toBeNull()
    source.head(5_000_000_100_000_000)
    source.cursor(5_000_000_000_000_000)
    expect(progress()).toBe(0)
    source.cursor(5_000_000_025_000_000)
    expect(progress()).toBe(0.25)
    source.cursor(5_000_000_100_000_000)
    source.caughtUp()
    expect(progress()).toBeNull()
    source.head(5_000_000_200_000_000)
    source.cursor(5_000_000_150_000_000)
    expect(progress()).toBe(0.5)
  })

  it('counts an hour of entries read and delivered, and what is owed', () => {
    const { board, source, sink, clock, owe } = openHouse()
    const none = { filtered: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }
    source.appended({ added: 5, late: 2, known: 9, ...none })
    clock.pass(30_000)
    sink.settled({ accepted: 3, deadLettered: 1, filtered: 1 })
    owe(4, startAt)
    expect(board.status().history).toEqual({
      step_seconds: 30,
      read: [7, 0],
      delivered: [0, 3],
      owed: [0, 4],
    })
  })

  it('tells how much was filtered: by the types of a source, and by what a sink takes', () => {
    const { board, source, sink } = openHouse()
    const none = { known: 0, late: 0, quarantined: 0, findings: 0, latestBehindUs: 0 }
    source.appended({ added: 5, filtered: 7, ...none })
    sink.settled({ accepted: 2, deadLettered: 0, filtered: 3 })
    const { workspaces, sinks } = board.status()
    expect(workspaces[0]?.sources[0]).toMatchObject({ new_entries: 5, filtered_entries: 7 })
    expect(sinks[0]).toMatchObject({ accepted_entries: 2, filtered_entries: 3 })
  })

  it('gauges follow the journal at each scrape', async () => {
    const house = openHouse()
    house.owe(7, startAt - 3000, { full: true, quarantined: 2, strangers: ['old'] })
    const text = await house.metrics.render()
    for (const line of [
      'auditferry_journal_entries 7',
      'auditferry_journal_bytes 700',
      'auditferry_journal_paused 1',
      'auditferry_quarantined 2',
      'auditferry_sink_owed_entries{sink="archive"} 7',
      'auditferry_sink_lag_seconds{sink="archive"} 3',
    ])
      expect(text).toContain(`${line}\n`)
    expect(house.board.status().journal.strangers).toEqual(['old'])
  })

  it('a closed journal breaks neither page nor scrape: its last word counts', async () => {
    const house = openHouse()
    house.owe(7, startAt)
    house.board.status()
    let closed = false
    const metrics = openMetrics({ version: '1', processMetrics: false })
    const journalStats = () => {
      if (closed) throw new Error('the database connection is not open')
      return house.journal.stats
    }
    const budget = () => [{ area: 'audit', used: 3, limit: 60 }]
    const board = openBoard({ clock: house.clock, metrics, journalStats, version: '1', budget })
    board.source({ workspace: 'acme', source: 'audit' })
    expect(board.status().workspaces[0]?.budget).toEqual([{ area: 'audit', used: 3, limit: 60 }])
    closed = true
    expect(board.status().journal.entries).toBe(7)
    expect(await metrics.render()).toContain('auditferry_journal_entries 7')
  })

  it('many troubles make one sentence of bounded length', () => {
    const { board, sink } = openHouse()
    const names = ['b', 'c', 'd', 'e', 'f']
    const watches = names.map((name) => board.sink(name, 'file', 'stored'))
    const long = new ConnectorError('server_error', 'x'.repeat(5000))
    for (const watch of [sink, ...watches]) watch.state('failing', long)
    const { sentence } = board.status()
    expect(sentence).toMatch(/; and 3 more$/)
    expect(sentence.length).toBeLessThan(2000)
  })
})

it.each([
  [0, '0 s'],
  [89, '89 s'],
  [90, '2 min'],
  [3600, '60 min'],
  [5400, '2 h'],
  [172_800, '2 days'],
])('%i seconds read as %s', (seconds, text) => {
  expect(spanText(seconds)).toBe(text)
})

it('what holds a backfill up is told without a secret of the configuration', () => {
  const { clock } = openHouse()
  const metrics = openMetrics({ version: '1.2.3', processMetrics: false })
  const backfill: BackfillStatus = {
    ...{ workspace: 'acme', source: 'audit', from: '2026-01-01', to: '2026-02-01', state: 'failed' },
    ...{ waits_for: 'budget', progress: 0, read_entries: 0, new_entries: 0, gaps: 0 },
    error: { code: 'unreachable', message: 'proxy refused planted-secret' },
  }
  const board = openBoard({
    ...{ clock, metrics, journalStats: () => fakeStats, version: '1.2.3' },
    secrets: () => [new Secret('planted-secret')],
    backfills: () => [backfill],
  })
  const error = { code: 'unreachable', message: 'proxy refused ***' }
  expect(board.status().backfills).toEqual([{ ...backfill, error }])
})
