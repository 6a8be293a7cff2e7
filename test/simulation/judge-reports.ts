// The daemon's reports of what it could not take: a possible gap only if an entry may be missing, quarantine only of what the API sent malformed.
import type { App } from '../../src/app/app.ts'
import type { QuarantineRecord } from '../../src/contracts/records.ts'
import type { Stage } from './simulate.ts'

/** Any answer of the API in place of an entry, by its bytes, one character a byte. */
function malformed({ mock }: Stage): ReadonlySet<string> {
  const text = (raw: Uint8Array) => Buffer.from(raw).toString('latin1')
  const entries = mock.entries().filter(({ defect }) => defect !== undefined)
  const events = mock.history().filter(({ defect }) => defect !== undefined)
  return new Set([
    ...entries.map(({ raw }) => text(raw)),
    ...events.flatMap(({ versions }) => versions.flatMap(({ raw, rawV1 }) => [text(raw), text(rawV1)])),
  ])
}

async function judgeQuarantine(stage: Stage, { journal }: App): Promise<string[]> {
  const records: QuarantineRecord[] = []
  for (;;) {
    const more = await journal.quarantined({ limit: 500, after: records.at(-1)?.id ?? 0 })
    if (more.length === 0) break
    records.push(...more)
  }
  if (records.length === 0) return []
  const known = malformed(stage)
  const strange: string[] = []
  for (const { id, stream, reason } of records) {
    const bytes = Buffer.from((await journal.quarantinedRaw(id)) ?? []).toString('latin1')
    // A whole answer, kept for the one unreadable entry in it.
    const isKnown =
      reason === 'unreadable_page' ? [...known].some((raw) => bytes.includes(raw)) : known.has(bytes)
    if (!isKnown) strange.push(`${stream.source} (${reason}): ${bytes.slice(0, 80)}`)
  }
  return strange.length === 0
    ? []
    : [`quarantine: ${strange.length} of ${records.length} were no entry, such as ${strange[0]}`]
}

function judgeGaps({ scenario, mock, orders }: Stage, { journal }: App): string[] {
  // Behind an unreadable part, the next entry is looked for by time: that may skip something.
  if (scenario.faults.poison !== 0 || (scenario.faults.history_poison ?? 0) !== 0) return []
  const { gaps } = journal.stats()
  // A cursor that the server does not accept any more is left, and what is right behind it may be missing.
  const isDead = scenario.outages.deadCursorAt !== undefined
  // Nothing is known before a first entry that is malformed, so others of its own second may be missing.
  const startUs = scenario.start === 'earliest' ? 0 : (scenario.startAt - 6 * 3_600_000) * 1000
  // The same of a backfill.
  const begins = orders && scenario.operator?.backfills === true ? [startUs, orders.span.fromUs] : [startUs]
  const malformed = begins.filter(
    (fromUs) => mock.entries().find(({ atUs }) => atUs >= fromUs)?.defect !== undefined,
  )
  const most = Number(isDead) + malformed.length
  return gaps <= most ? [] : [`gaps: ${gaps} are reported, at most ${most} may: nothing is missing`]
}

export async function judgeReports(stage: Stage, app: App | undefined): Promise<string[]> {
  return app ? [...judgeGaps(stage, app), ...(await judgeQuarantine(stage, app))] : []
}
