// The sections below the rows: what needs a person, the last errors, the configuration.
import { countText, numberText } from '../words.ts'
import type { FindingStatus, ShardStatus, StatusReport, WarningStatus } from '../status.ts'
import type { ErrorStatus } from '../recent.ts'
import { agoHtml, escapeHtml, soft, tableHtml, verbatim } from './html.ts'

interface Matter {
  readonly key: string
  /** HTML */
  readonly what: string
  /** plain text: what to do about it */
  readonly advice?: string
  /** HTML, one line each */
  readonly details?: readonly string[]
  /** the command to type */
  readonly command?: string
}

const timeHtml = (iso: string) => `<time datetime="${escapeHtml(iso)}">${escapeHtml(iso)}</time>`

function gapsHtml({ workspaces }: StatusReport): string[] {
  return workspaces.flatMap(({ name: workspace, sources }) =>
    sources.flatMap(({ name, last_gap_at: at }) =>
      at === null ? [] : [`${verbatim(`${workspace} ${name}`)}: the last found ${timeHtml(at)}`],
    ),
  )
}

const SHOWN_FINDINGS = 5

/** Id and time identify the entry in the SIEM, where it says who and from where. */
function findingHtml({ workspace, source, entry_id, entry_at, found_at }: FindingStatus): string {
  const at = entry_at ?? found_at
  return `${verbatim(`${workspace} ${source}`)}: entry <code>${escapeHtml(entry_id)}</code> of ${timeHtml(at)}`
}

function matters(report: StatusReport): Matter[] {
  const { sinks, journal } = report
  const { quarantined, gaps, findings, unconfigured } = journal
  const letters = sinks
    .filter(({ dead_letters }) => dead_letters > 0)
    .map(({ name, dead_letters }) => ({
      key: `letters ${name}`,
      what: `<b>${countText(dead_letters, 'dead letters')}</b> at ${verbatim(name)}: rejected for good`,
      command: `auditferry dead-letters list --sink ${name}`,
    }))
  const rest: (Matter & { readonly count: number })[] = [
    {
      key: 'quarantined',
      count: quarantined,
      what: `<b>${countText(quarantined, 'elements')}</b> quarantined: malformed, kept byte for byte, not delivered`,
      command: 'auditferry quarantine list',
    },
    {
      key: 'gaps',
      count: gaps,
      what: `<b>${countText(gaps, 'possible gaps')}</b>: entries that may have been missed for good`,
      advice: "compare that day's number of entries with the API's own view",
      details: gapsHtml(report),
    },
    {
      key: 'findings',
      count: findings,
      what: `<b>${countText(findings, 'findings')}</b>: another client fetched the log as the user of the key`,
      advice:
        'look up the entries where they were delivered: add a known tool to expected_user_agents; otherwise rotate the key',
      details: report.findings.slice(0, SHOWN_FINDINGS).map(findingHtml),
    },
    {
      key: 'strangers',
      count: unconfigured.length,
      what: `<b>Left the configuration</b>: ${verbatim(unconfigured.join(', '))}`,
      advice: 'no entries are kept for it; its pending ones are deleted once all other sinks have them',
    },
  ]
  return [...troubledParts(report), ...warned(report), ...letters, ...rest.filter(({ count }) => count > 0)]
}

const troubles = [
  ['blocked', 'Blocked', 'fix it as the message in its row says; then it resumes automatically'],
  ['failing', 'Failing', 'the message in its row says why; it is tried again automatically'],
] as const

/** Whatever makes the title of the page say `attention`. */
function troubledParts({ workspaces, sinks, journal }: StatusReport): Matter[] {
  const sources = workspaces.flatMap(({ name, sources: own }) =>
    own.map((source) => ({ ...source, name: `${name} ${source.name}` })),
  )
  const { lost, paused } = journal
  return [
    ...(lost === null ? [] : [{ key: 'lost', what: `<b>Journal</b>: ${verbatim(lost)}` }]),
    ...(paused
      ? [{ key: 'paused', what: '<b>Reading is paused</b>', advice: 'it resumes once there is room' }]
      : []),
    ...troubles.flatMap(([state, title, advice]) =>
      [...sources, ...sinks]
        .filter((part) => part.state === state)
        .map(({ name }) => ({ key: `${state} ${name}`, what: `<b>${title}</b>: ${verbatim(name)}`, advice })),
    ),
  ]
}

const adviceByCode: Readonly<Record<WarningStatus['code'], string>> = {
  clock_apart:
    'after the fix reading resumes automatically; if it was wrong for days, a backfill finds what was missed',
  secret_unread: 'put it back where it was: it is read again automatically',
  file_unread: 'put it back where it was: it is read again automatically',
  file_removed: 'find out who did it, and replay the lines; this warning lasts a day',
  file_cut: 'find out who did it, and replay the lines; this warning lasts a day',
}

function warned({ warnings }: StatusReport): Matter[] {
  return warnings.map(({ code, about, message, since }) => ({
    key: `warning ${code} ${about}`,
    what: `<b>To fix</b>: ${verbatim(message)}`,
    details: [`since ${timeHtml(since)}`],
    advice: adviceByCode[code],
  }))
}

export function mattersHtml(report: StatusReport): string {
  const items = matters(report).map(({ key, what, advice, details = [], command }) => {
    const then =
      command === undefined ? soft(escapeHtml(advice ?? '')) : `<code>${escapeHtml(command)}</code>`
    return `<li data-key="${escapeHtml(key)}">${[what, ...details, then].join('<br>')}</li>`
  })
  const inner =
    items.length > 0
      ? `<ul class="matters">${items.join('\n')}</ul>`
      : '<p>Nothing: no part is blocked, failing or paused; no warning, no dead letter, nothing quarantined, no gap, no finding.</p>'
  return `<section aria-labelledby="matters"><h2 id="matters">Needs attention</h2>${inner}</section>`
}

/** A report of another replica is this old at most, unless that one or the database is in trouble. */
const FRESH_MS = 30_000

function shardRow({ shard, holder, since, takeovers, here, reported_at }: ShardStatus, now: number) {
  const who = here ? `${verbatim(holder ?? '')} ${soft('(this one)')}` : verbatim(holder ?? 'none')
  const isOld = reported_at === null || now - Date.parse(reported_at) > FRESH_MS
  const html =
    reported_at === null ? 'no report of it yet' : `its last report came ${agoHtml(reported_at, now)}`
  return {
    key: `shard ${shard}`,
    name: String(shard),
    cells: [who, agoHtml(since, now), numberText(takeovers)],
    notes: isOld ? [{ kind: 'fault', html } as const] : [],
  }
}

/** '' if the journal is not in PostgreSQL. */
export function shardsHtml(shards: readonly ShardStatus[] | undefined, now: number): string {
  if (shards === undefined) return ''
  const rows = shards.map((shard) => shardRow(shard, now))
  const inner =
    rows.length > 0
      ? tableHtml({
          caption: 'Shards of the journal and the replicas that hold them',
          columns: ['Shard', 'Replica', 'Since'],
          numbers: ['Takeovers'],
          rows,
        })
      : '<p>Unknown until the database has answered.</p>'
  return `<section aria-labelledby="shards"><h2 id="shards">Shards</h2>${inner}</section>`
}

function errorRow({ part, code, message, times, last_at, first_at }: ErrorStatus, now: number) {
  const since = times > 1 ? ` ${soft(`(first ${agoHtml(first_at, now)})`)}` : ''
  return {
    key: escapeHtml(`error ${part} ${code} ${message}`),
    name: verbatim(part),
    cells: [agoHtml(last_at, now), escapeHtml(code), numberText(times)],
    notes: [{ kind: 'fault', html: `${verbatim(message)}${since}` } as const],
  }
}

export function errorsHtml(errors: readonly ErrorStatus[], now: number): string {
  const rows = errors.map((error) => errorRow(error, now))
  const columns = ['Part', 'Last', 'Code']
  const inner =
    rows.length > 0
      ? tableHtml({ caption: 'The last errors, newest first', columns, numbers: ['Times'], rows })
      : '<p>None since the start or the last reload.</p>'
  return `<section aria-labelledby="errors" class="errors"><h2 id="errors">Last errors</h2>${inner}</section>`
}

/** `config`: text with secrets masked; it is only escaped here. */
export function configHtml(config: string | undefined): string {
  if (config === undefined) return ''
  return `<section aria-labelledby="config"><details data-key="config"><summary><h2 id="config">Configuration</h2>${soft('secrets are masked')}</summary>
<pre tabindex="0" role="region" aria-label="Configuration, secrets masked"><code>${escapeHtml(config)}</code></pre></details></section>`
}
