// The page for each state: what it must show, and that nothing in a report can be more than text.
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sinkStates, sourceStates } from '../../../../src/contracts/reporter.ts'
import { pageHeaders, renderPage } from '../../../../src/observability/page/layout.ts'
import { statusText } from '../../../../src/cli/status.ts'
import { sparkline } from '../../../../src/observability/page/tiles.ts'
import { escapeHtml } from '../../../../src/observability/page/html.ts'
import { sizeText } from '../../../../src/observability/words.ts'
import type { FaultStatus, StatusReport } from '../../../../src/observability/status.ts'
import { calm, calmSink, calmSource, withSink, withSource } from './reports.ts'

const refused: FaultStatus = {
  code: 'unreachable',
  message: 'receiver refused the connection',
  since: '2026-11-21T09:50:00.000Z',
}

/** Without style and script: the content between the tags of the page itself. */
const withoutCode = (page: string) => page.replace(/<(style|script)>[^]*?<\/\1>/g, '')
const main = (page: string) => /<main[^]*<\/main>/.exec(page)?.[0] ?? ''
const textOf = (html: string) =>
  withoutCode(html)
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')

function unclosed(page: string): string[] {
  const open: string[] = []
  for (const [, close, tag = ''] of withoutCode(page).matchAll(/<(\/?)([a-z0-9]+)(?:\s[^>]*)?>/g)) {
    if (['meta', 'link', 'br', 'path', 'rect'].includes(tag)) continue
    if (close === '') open.push(tag)
    else if (open.pop() !== tag) return [...open, `/${tag}`]
  }
  return open
}

/** Of jobs. */
const unhindered = {
  state: 'running',
  waits_for: null,
  wait_reason: null,
  error: null,
  read_entries: 5,
  gaps: 0,
} as const

/** Of a replica that holds one shard of three: another holds the second, and none the third. */
const shared: StatusReport = {
  ...calm,
  workspaces: [...calm.workspaces, { name: 'globex', sources: [calmSource], replica: 'node-b-271828' }],
  shards: [
    {
      ...{ shard: 1, holder: 'node-a-314159', epoch: 1, since: '2026-11-21T09:00:00.000Z', takeovers: 0 },
      ...{ here: true, reported_at: '2026-11-21T10:00:00.000Z' },
    },
    {
      ...{ shard: 2, holder: 'node-b-271828', epoch: 5, since: '2026-11-21T09:58:00.000Z', takeovers: 3 },
      ...{ here: false, reported_at: '2026-11-21T09:58:30.000Z' },
    },
    { shard: 3, holder: null, epoch: 0, since: null, takeovers: 0, here: false, reported_at: null },
  ],
}

describe('the shards of a journal in PostgreSQL', () => {
  it('are on the page with their replicas, since when, takeovers, and the age of an old report', () => {
    const page = renderPage(shared)
    expect(unclosed(page)).toEqual([])
    const text = textOf(page)
    expect(text).toContain('1 node-a-314159 (this one) 60 min ago 0')
    expect(text).toContain('2 node-b-271828 2 min ago 3')
    expect(text).toContain('its last report came 2 min ago')
    expect(text).toContain('3 none never 0 no report of it yet')
    expect(text).toContain('globex well read by replica node-b-271828')
    expect(textOf(renderPage(calm))).not.toContain('Shards')
    expect(textOf(renderPage({ ...calm, shards: [] }))).toContain('Unknown until the database has answered.')
  })

  it('are in the text of `status`, with the workspaces that other replicas read', () => {
    expect(statusText(shared)).toMatch(
      /^SHARD +REPLICA +SINCE +TAKEOVERS\n1 +node-a-314159 \(this one\) +60 min ago +0\n2 +node-b-271828 +2 min ago +3\n3 +none +never +0\n {2}globex: read by replica node-b-271828\n/m,
    )
    expect(statusText(calm)).not.toContain('SHARD')
  })
})

describe('the status page', () => {
  it('allows its own style and script by their hashes and nothing else', () => {
    const page = renderPage(calm)
    const policy = pageHeaders['content-security-policy'] ?? ''
    for (const tag of ['style', 'script']) {
      const found = [...page.matchAll(new RegExp(`<${tag}>([^]*?)</${tag}>`, 'g'))]
      expect(found).toHaveLength(1)
      const hash = createHash('sha256')
        .update(found[0]?.[1] ?? '')
        .digest('base64')
      expect(policy).toContain(`${tag}-src 'sha256-${hash}'`)
    }
    expect(policy).toMatch(/^default-src 'none';/)
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toContain('unsafe')
    expect(withoutCode(page)).not.toMatch(/\son[a-z]+=|\sstyle=|javascript:/i)
  })

  it('reloads itself if scripts are off, and only then', () => {
    expect(renderPage(calm)).toMatch(/<noscript><meta http-equiv="refresh" content="15"><\/noscript>/)
    expect(renderPage(calm).match(/http-equiv/g)).toHaveLength(1)
  })

  it('has one sentence on top, and says in small print that nothing waits', () => {
    const page = textOf(main(renderPage(calm)))
    expect(page).toMatch(/^ All caught up: last delivery 14 s ago/)
    for (const part of ['acme', 'audit', 'idle', '3 of 60', 'archive', 'stored', '2.0 GiB'])
      expect(page).toContain(part)
    expect(page).toContain('Nothing: no part is blocked, failing or paused; no warning, no dead letter')
    expect(page).toContain('None since the start or the last reload')
  })

  it.each(sourceStates)('shows a source that is %s, by a word and a shape', (state) => {
    const page = renderPage(withSource({ state }))
    expect(page).toMatch(new RegExp(`<span class="state (good|busy|warn|bad)">${state}</span>`))
    expect(unclosed(page)).toEqual([])
  })

  it.each(sinkStates)('shows a sink that is %s, by a word and a shape', (state) => {
    const page = renderPage(withSink({ state, error: state === 'failing' ? refused : null }))
    expect(page).toMatch(new RegExp(`<span class="state (good|busy|bad)">${state}</span>`))
    expect(unclosed(page)).toEqual([])
  })

  it('shows for a collecting sink when its next upload is', () => {
    const page = (at: string) => textOf(renderPage(withSink({ state: 'collecting', next_upload_at: at })))
    expect(page(new Date(Date.parse(calm.reported_at) + 20_000).toISOString())).toMatch(
      /collecting next upload in 20.s/,
    )
    expect(page(calm.reported_at)).toContain('collecting next upload is due')
  })

  it('shows the last error in its own words, with its code and when the failure began, perhaps with another code', () => {
    const text = textOf(renderPage(withSink({ state: 'failing', error: refused })))
    expect(text).toMatch(/receiver refused the connection \(unreachable, began 10 min ago ?\)/)
  })

  it('says why something fails in its row, also if the sentence has all of it', () => {
    const summary = `archive is 14 s behind: ${refused.message}`
    const text = textOf(renderPage({ ...withSink({ state: 'failing', error: refused }), summary }))
    expect(text.split(refused.message)).toHaveLength(3)
    expect(text).not.toContain('as above')
  })

  it.each([
    ['blocked', withSource({ state: 'blocked', error: refused }), /Blocked : acme audit fix it/],
    ['failing', withSink({ state: 'failing', error: refused }), /Failing : archive the message in its row/],
    ['paused', { ...calm, journal: { ...calm.journal, paused: true } }, /Reading is paused it resumes/],
    ['lost', { ...calm, journal: { ...calm.journal, lost: 'a.db is gone' } }, /Journal : a\.db is gone/],
  ])('what needs attention never says "nothing" beside a part that is %s', (_, report, listed) => {
    const text = textOf(renderPage({ ...report, ok: false }))
    expect(text.slice(text.indexOf('Needs attention'))).toMatch(listed)
    expect(text).not.toContain('Nothing:')
  })

  it('shows when a failing part retries, if that is known and in the future', () => {
    const shown = (next_try_at: string) =>
      textOf(renderPage(withSink({ state: 'failing', error: { ...refused, next_try_at } })))
    expect(shown('2026-11-21T10:00:42.000Z')).toMatch(/began 10 min ago ?, next try in 42 s\)/)
    expect(shown('2026-11-21T10:00:00.000Z')).not.toContain('next try')
  })

  it('shows sources of unknown kinds, each with the rate limit of its area', () => {
    const names = ['audit', 'history.usage', 'history.query', 'vault.projects', 'canary']
    const page = renderPage({
      ...calm,
      workspaces: [
        {
          name: 'acme',
          sources: names.map((name) => ({ ...calmSource, name })),
          rate_limits: [
            { area: 'history', used: 7, limit: 30 },
            { area: 'vault', used: 9, limit: 10 },
          ],
        },
      ],
    })
    for (const name of names) expect(page).toContain(`<bdi>${name}</bdi>`)
    expect(page.match(/7 of 30/g)).toHaveLength(2)
    expect(page.match(/9 of 10/g)).toHaveLength(1)
  })

  it('names the workspaces that share a rate limit', () => {
    const rate_limits = [{ area: 'audit', used: 7, limit: 60, shared_with: ['beta', 'gamma'] }]
    const page = renderPage({ ...calm, workspaces: [{ name: 'acme', sources: [calmSource], rate_limits }] })
    expect(page).toMatch(/7 of 60 <[^>]+>together with beta, gamma</)
    expect(renderPage(calm)).not.toContain('together with')
  })

  it('says why a rate limit is lower after a 429', () => {
    const rate_limits = [{ area: 'audit', used: 44, limit: 45, lowered_from: 60 }]
    const page = renderPage({ ...calm, workspaces: [{ name: 'acme', sources: [calmSource], rate_limits }] })
    expect(page).toMatch(/44 of 45 <[^>]+>since a 429 \(60 before\)</)
    expect(renderPage(calm)).not.toContain('since a 429')
    const full = [{ area: 'audit', used: 60, limit: 45, lowered_from: 60 }]
    const before = { name: 'acme', sources: [calmSource], rate_limits: full }
    expect(renderPage({ ...calm, workspaces: [before] })).toMatch(
      /60, now 45 <[^>]+>since a 429 \(60 before\)</,
    )
  })

  it('shows since when a source’s answer waits for memory', () => {
    const waiting = { ...calmSource, waits_for_memory_since: '2026-11-21T10:00:00.000Z' }
    const page = renderPage({
      ...calm,
      reported_at: '2026-11-21T10:02:00.000Z',
      workspaces: [{ name: 'acme', sources: [waiting] }],
    })
    expect(page).toMatch(/class="note limit"[^>]*><td [^>]*>an answer has waited for memory for 2 min:/)
    expect(renderPage(calm)).not.toContain('memory')
  })

  it('shows for how long a source has been reading one answer', () => {
    const reading = { ...calmSource, answer_comes_since: '2026-11-21T10:00:00.000Z' }
    const workspaces = [{ name: 'acme', sources: [reading] }]
    const page = renderPage({ ...calm, reported_at: '2026-11-21T10:02:00.000Z', workspaces })
    expect(page).toMatch(/class="note limit"[^>]*><td [^>]*>one answer has been arriving for 2 min</)
    expect(renderPage(calm)).not.toContain('coming')
  })

  it('shows until when a 429 pauses a rate limit', () => {
    const rate_limits = [{ area: 'audit', used: 7, limit: 45, limited_until: '2026-11-21T10:00:54.000Z' }]
    const page = renderPage({
      ...calm,
      reported_at: '2026-11-21T10:00:00.000Z',
      workspaces: [{ name: 'acme', sources: [calmSource], rate_limits }],
    })
    expect(page).toMatch(
      /class="note limit"[^>]*><td [^>]*>the API answered 429, and no request is sent until 2026-11-21 10:00:54 UTC \(54 s more\)</,
    )
    expect(renderPage(calm)).not.toContain('429')
  })

  it('of many workspaces only those with problems are open', () => {
    const workspaces = Array.from({ length: 100 }, (_, i) => ({
      name: `w${i}`,
      sources: [{ ...calmSource, state: i === 42 ? ('blocked' as const) : ('idle' as const) }],
    }))
    const page = renderPage({ ...calm, workspaces })
    expect(page.match(/<details [^>]* open>/g)).toEqual(['<details data-key="workspace w42" open>'])
    expect(page.length).toBeLessThan(400_000)
  })

  it.each([
    ['caught up', {}, 'none'],
    ['that cannot look', { state: 'blocked' }, 'unknown'],
    ['that fails', { state: 'failing' }, 'unknown'],
    ['that is paused before it has read anything', { state: 'paused' }, 'unknown'],
    ['that has read nothing yet', { state: 'starting', last_success_at: null }, 'unknown'],
  ] as const)('the lag of a source %s shows only what is known of it', (_, change, lag) => {
    const page = renderPage(withSource(change))
    expect(/Lag<\/th>[^]*?<\/table>/.exec(page)?.[0]).toContain(`<span class="soft">${lag}</span>`)
    expect(statusText(withSource(change))).toMatch(new RegExp(`^ *acme audit .* ${lag} `, 'm'))
  })

  it('shows how far a backlog is read and how far a backfill came', () => {
    const page = renderPage({
      ...withSource({ state: 'reading', lag_seconds: 86_400, progress: 0.427 }),
      backfills: [
        {
          ...{ workspace: 'acme', source: 'audit', from: '2026-01-01', to: '2026-02-01' },
          ...{ ...unhindered, progress: 0.5, new_entries: 1234 },
        },
      ],
      replays: [
        {
          ...{ workspace: 'acme', source: 'audit', sink: 'siem', from: '2026-01-01', to: '2026-02-01' },
          ...{
            ...unhindered,
            state: 'waiting',
            waits_for: 'room',
            wait_reason: null,
            progress: 0.25,
            sent_entries: 77,
          },
        },
      ],
    })
    expect(page).toMatch(/role="progressbar"[^>]* aria-valuenow="42.7"/)
    expect(textOf(page)).toMatch(/acme audit running 2026-01-01 2026-02-01 50 % 1,234/)
    expect(textOf(page)).toMatch(
      /acme audit siem waiting 2026-01-01 2026-02-01 25 % 77 Waiting for room in the journal/,
    )
    expect(unclosed(page)).toEqual([])
  })

  it('names the entries of findings, with their time, as text and not more', () => {
    const finding = { workspace: 'acme', source: 'audit', kind: 'foreign_fetch' } as const
    const found_at = '2026-11-21T09:00:00.000Z'
    const findings = [
      { ...finding, entry_id: 'e1', entry_at: '2026-11-21T08:59:58.000Z', found_at },
      ...[2, 3, 4, 5, 6].map((n) => ({ ...finding, entry_id: `<e${n}>`, entry_at: null, found_at })),
    ]
    const page = renderPage({ ...calm, journal: { ...calm.journal, findings: 6 }, findings })
    const text = textOf(main(page))
    expect(text).toContain('acme audit : entry e1 of 2026-11-21T08:59:58.000Z')
    expect(text).toContain('entry &lt;e5&gt; of 2026-11-21T09:00:00.000Z')
    expect(text).not.toContain('e6')
    expect(unclosed(page)).toEqual([])
  })

  it('names everything that needs attention, and what to do about each', () => {
    const page = renderPage({
      ...withSource({ last_gap_at: '2026-11-21T07:00:00.000Z' }),
      ...{ sinks: withSink({ dead_letters: 2 }).sinks },
      journal: { ...calm.journal, quarantined: 1, gaps: 3, findings: 4, unconfigured: ['old'] },
      warnings: [
        {
          ...{ code: 'secret_unread', about: 'acme api_key', since: '2026-11-21T08:00:00.000Z' },
          message: 'acme api_key cannot be read again, and a restart would fail: gone',
        },
      ],
    })
    const text = textOf(page)
    for (const part of [
      '2 dead letters at archive',
      'To fix : acme api_key cannot be read again, and a restart would fail: gone',
      'since 2026-11-21T08:00:00.000Z',
      '1 element quarantined',
      '3 possible gaps',
      'acme audit : the last found 2026-11-21T07:00:00.000Z',
      '4 findings',
      ': old',
    ])
      expect(text).toContain(part)
    expect(text).toContain('auditferry dead-letters list --sink archive')
  })

  it('lists the last errors, also those that recovered', () => {
    const error = { part: 'archive', code: 'timeout', message: 'no answer within 30 s', times: 3 } as const
    const instants = { first_at: '2026-11-21T08:00:00.000Z', last_at: '2026-11-21T09:00:00.000Z' }
    const text = textOf(renderPage({ ...calm, errors: [{ ...error, ...instants }] }))
    expect(text).toMatch(/archive 60 min ago timeout 3 no answer within 30 s \(first 2 h ago ?\)/)
  })

  it('shows the configuration that it is given, and none if it is given none', () => {
    expect(renderPage(calm, 'api_key: "***"\n')).toContain('api_key: &quot;***&quot;')
    expect(renderPage(calm)).not.toContain('id="config"')
  })

  it('announces states to a screen reader, but not the passing seconds', () => {
    const news = (report: StatusReport) => /id="news"[^>]*>([^<]*)</.exec(renderPage(report))?.[1]
    const later = { ...calm, summary: 'All caught up: last delivery 19 s ago' }
    expect(news(calm)).toBe(news(later))
    const bad = { ...withSink({ state: 'failing', error: refused }), ok: false }
    expect(news(bad)).toBe('Attention: archive is failing')
    expect(news({ ...bad, journal: { ...calm.journal, paused: true } })).toContain('reading is paused')
  })

  it('is complete before anything has happened', () => {
    const page = renderPage({
      ...withSource({
        state: 'starting',
        last_success_at: null,
        caught_up_at: null,
        head_at: null,
        cursor_at: null,
      }),
      sinks: [{ ...calmSink, state: 'starting', last_success_at: null }],
      journal: { ...calm.journal, capacity_bytes: 0 },
      history: { step_seconds: 30, read: [0], delivered: [0], pending: [0] },
    })
    expect(unclosed(page)).toEqual([])
    expect(withoutCode(page)).not.toMatch(/NaN|undefined|Infinity/)
    expect(textOf(page)).toContain('never')
  })

  it('says for a sink without a delivery that this counts from this start or reload', () => {
    const report = withSink({ last_success_at: null })
    const page = textOf(renderPage(report))
    expect(page).toContain('none since the start ')
    expect(page).not.toContain('never')
    const history = { step_seconds: 30, read: [0], delivered: [0], pending: [0] }
    const reloaded = { ...report, history, configured_at: '2026-11-21T09:00:00.000Z' }
    const after = textOf(renderPage(reloaded))
    expect(after).toContain('up 24 h')
    expect(after).toContain('none since the reload')
    expect(after).toContain('0 since the reload, at most')
  })
})

const evil = `<script>alert(1)</script><img src=x onerror="alert('1')">&"'\u202e]]>--></main>`

describe('text from outside', () => {
  it('stays text: a script in a receiver’s error, in a name, in the configuration', () => {
    const fault: FaultStatus = { ...refused, message: `answered 500: ${evil}` }
    const page = renderPage(
      {
        ...calm,
        ...{ version: evil, summary: evil },
        workspaces: [
          {
            name: evil,
            sources: [{ ...calmSource, state: 'failing', error: fault }],
            rate_limits: [{ area: evil, used: 1, limit: 2 }],
          },
        ],
        sinks: [{ ...calmSink, name: evil, type: evil, state: 'failing', dead_letters: 1, error: fault }],
        journal: { ...calm.journal, unconfigured: [evil] },
        errors: [
          {
            ...{ part: evil, code: 'server_error', message: fault.message, times: 2 },
            ...{ first_at: evil, last_at: calm.reported_at },
          },
        ],
        backfills: [
          {
            ...{ workspace: evil, source: evil, from: evil, to: evil },
            ...{ ...unhindered, state: 'failing', error: fault, progress: null, new_entries: 1 },
          },
        ],
        replays: [
          {
            ...{ workspace: evil, source: evil, sink: evil, from: evil, to: evil },
            ...{ ...unhindered, progress: null, sent_entries: 1 },
          },
        ],
      },
      evil,
    )
    expect(page).not.toContain('<img')
    expect(page.match(/<script>/g)).toHaveLength(1)
    expect(page.match(/<\/main>/g)).toHaveLength(1)
    expect(page).toContain(escapeHtml(evil))
    expect(unclosed(page)).toEqual([])
  })

  it('never leaves its place, whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const page = renderPage(withSink({ name: text, error: { ...refused, message: text } }), text)
        expect(escapeHtml(text)).not.toMatch(/[<>"']/)
        expect(page.match(/<[a-z]/g)?.length).toBe(
          renderPage(withSink({ error: refused }), '').match(/<[a-z]/g)?.length,
        )
      }),
      { numRuns: 60 },
    )
  })
})

describe('the hour as a line', () => {
  const points = (svg: string) => /class="line" d="M([^"h]*)/.exec(svg)?.[1]?.split('L') ?? []

  it('ends at the right edge, however young the process is', () => {
    for (const values of [[0], [1, 2], Array.from({ length: 120 }, () => 5)]) {
      const drawn = points(sparkline(values, 120))
      expect(drawn).toHaveLength(values.length)
      expect(drawn.at(-1)).toMatch(/^240,/)
      for (const point of drawn) {
        const [x = NaN, y = NaN] = point.split(',').map(Number)
        expect(x).toBeGreaterThanOrEqual(0)
        expect(y).toBeGreaterThanOrEqual(0)
        expect(y).toBeLessThanOrEqual(44)
      }
    }
  })

  it('zero is at the bottom, the most at the top', () => {
    expect(points(sparkline([0, 10], 2))).toEqual(['0,42', '240,2'])
  })
})

it('sizes are written for people', () => {
  expect([0, 1023, 1024, 5 * 2 ** 20, 2 ** 31].map(sizeText)).toEqual([
    '0 B',
    '1023 B',
    '1.0 KiB',
    '5.0 MiB',
    '2.0 GiB',
  ])
})
