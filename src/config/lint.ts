// Warnings about settings that are valid but probably not intended.
import { globFilter } from '../core/globs.ts'
import { MINUTE_MS, isoFromUs } from '../core/time.ts'
import { documentedTypes } from '../formats/event-types.ts'
import { paceOf } from '../sources/audit/step.ts'
import { guaranteedOf } from '../sources/http/rate-limiter.ts'
import { kindOf } from '../sinks/index.ts'
import type { Start } from '../sources/shared.ts'
import { addressOf } from '../journal/postgres/address.ts'
import { nearest } from './explain.ts'
import type { Path } from './faults.ts'
import type { LoadedConfig } from './load.ts'
import { notNormalized } from './policy.ts'
import { isExposed } from './fields.ts'
import { folderOf, pathFrom } from './references.ts'
import { durationText } from './render.ts'
import { sinkFiles, sourcesOf } from './schema.ts'
import { sharingKey } from './workspace.ts'
import type { WorkspaceConfig } from './workspace.ts'

type Warn = (path: Path, message: string) => void

interface Linting {
  readonly loaded: LoadedConfig
  readonly warning: Warn
}

function checkSources({ loaded, warning }: Linting): void {
  const on = new Set<string>(loaded.config.workspaces.flatMap(sourcesOf))
  for (const [index, { sources }] of loaded.config.sinks.entries()) {
    const path = ['sinks', index, 'sources']
    // The default lists more sources than most have; only explicitly named ones get a warning.
    if (loaded.document.has(path))
      for (const [i, source] of sources.entries())
        if (!on.has(source)) warning([...path, i], `no workspace has ${source} switched on`)
    if (!sources.some((source) => on.has(source)))
      warning(path, 'all of its sources are switched off: this sink receives nothing')
  }
  const taken = new Set<string>(loaded.config.sinks.flatMap(({ sources }) => sources))
  for (const [index, workspace] of loaded.config.workspaces.entries())
    for (const source of sourcesOf(workspace))
      if (!taken.has(source))
        warning(
          ['workspaces', index, ...source.split('.')],
          `${source} is read and kept, and no sink takes it: name it in a sink's sources`,
        )
}

/** Unlike the audit log and the history, the vault needs an explicit `projects: true`. */
function checkVaults({ loaded, warning }: Linting): void {
  for (const [index, { vault }] of loaded.config.workspaces.entries()) {
    const path = ['workspaces', index, 'vault']
    if (vault?.projects === false && !loaded.document.has([...path, 'projects']))
      warning(path, 'nothing of the vault is read: add `projects: true`, or leave `vault` out')
  }
}

function checkIntervals({ loaded, warning }: Linting): void {
  const { workspaces } = loaded.config
  for (const [index, workspace] of workspaces.entries())
    for (const { area, why } of crowdedIntervals(workspace, workspaces))
      warning(['workspaces', index, area, 'interval'], why)
}

/** A poll must still know the entries of the previous one. */
function checkKeptKeys({ loaded, warning }: Linting): void {
  const { journal, workspaces } = loaded.config
  const look = (path: Path, intervalMs: number | undefined) => {
    if (intervalMs === undefined || intervalMs < journal.dedup_retention) return
    const isWritten = loaded.document.has(path)
    const [span, kept] = [durationText(intervalMs), durationText(journal.dedup_retention)]
    warning(
      isWritten ? path : ['journal', 'dedup_retention'],
      `polls are ${span} apart${isWritten ? '' : ` (${path.join('.')})`}, and what was read is known for ${kept} (journal.dedup_retention): what two polls show may be sent twice; set a shorter interval, or a dedup_retention well above it`,
    )
  }
  for (const [index, { audit, history }] of workspaces.entries()) {
    look(
      ['workspaces', index, 'audit', 'interval'],
      audit && paceOf(audit.activity, audit.interval, 0).intervalMs,
    )
    look(['workspaces', index, 'history', 'interval'], history?.interval)
  }
}

function checkIdleKeys({ loaded, warning }: Linting): void {
  for (const [index, sink] of loaded.config.sinks.entries()) {
    const idle = kindOf(sink.type).idle?.(sink) ?? []
    const all = [
      ...idle.map(({ field, why }) => ({ path: ['sinks', index, field], why })),
      ...notNormalized(sink.deny).map(({ path, why }) => ({ path: ['sinks', index, 'deny', ...path], why })),
    ]
    for (const { path, why } of all) if (loaded.document.has(path)) warning(path, why)
  }
}

const typesOf = (isVault: boolean) =>
  documentedTypes.filter(({ category }) => (category === 'vault') === isVault).map(({ classId }) => classId)
const auditTypes = typesOf(false)
const vaultTypes = typesOf(true)

/** The most similar glob: a known type, or all types of a group. */
function similarGlob(glob: string, types: readonly string[]): string | undefined {
  const groups = new Set(types.map((type) => `${type.slice(0, type.indexOf(':'))}:*`))
  return nearest(glob, [...groups, ...types])
}

/** Only a warning, since the API may add types; but a typo would silently filter entries. */
function checkGlobs(warning: Warn, path: Path, globs: readonly string[], types: readonly string[]): void {
  for (const [index, written] of globs.entries()) {
    const glob = written.replace(/^!/, '')
    if (types.length === 0 || types.some(globFilter([glob]))) continue
    const suggestion = similarGlob(glob, types)
    const slip = suggestion === undefined ? 'a typo?' : `did you mean ${suggestion}?`
    warning([...path, index], `matches no documented type (of ${types.length}): ${slip}`)
  }
}

function checkTypes({ loaded, warning }: Linting): void {
  const { workspaces, sinks } = loaded.config
  for (const [index, { audit }] of workspaces.entries())
    checkGlobs(warning, ['workspaces', index, 'audit', 'types'], audit?.types ?? [], auditTypes)
  for (const [index, { sources, types }] of sinks.entries()) {
    const audit = sources.includes('audit') ? auditTypes : []
    const vault = sources.includes('vault.projects') ? vaultTypes : []
    checkGlobs(warning, ['sinks', index, 'types'], types, [...audit, ...vault])
  }
}

function checkStarts({ loaded, warning }: Linting, nowAt: number): void {
  const look = (path: Path, start: Start | undefined) => {
    if (start?.kind === 'time' && start.atUs > nowAt * 1000)
      warning(
        path,
        `is in the future: nothing from before ${isoFromUs(start.atUs)} will ever be read; to begin with what comes from now on, use latest`,
      )
  }
  for (const [index, { audit, history }] of loaded.config.workspaces.entries()) {
    look(['workspaces', index, 'audit', 'start'], audit?.start)
    look(['workspaces', index, 'history', 'start'], history?.start)
  }
}

/** `~` is not expanded: it would create a folder of that name. */
function checkHomes({ loaded, warning }: Linting): void {
  const { journal, sinks } = loaded.config
  const own = journal.postgres ? [] : [{ at: ['journal', 'path'], path: journal.path }]
  const outputs = sinks.flatMap((sink, index) =>
    sinkFiles(sink, 'outputs').map(({ field, path }) => ({
      at: ['sinks', index, ...field.split('.')],
      path,
    })),
  )
  const home = pathFrom(folderOf(loaded.file), '~/')
  for (const { at, path } of [...own, ...outputs])
    if (path.startsWith(home))
      warning(
        at,
        'begins with ~, which is not expanded here: it names a folder called ~; write the whole path',
      )
}

/** A database of this machine, or reached through a proxy that runs on it, needs no TLS. */
function checkPostgresTls({ loaded, warning }: Linting): void {
  const { postgres } = loaded.config.journal
  if (!postgres || postgres.tls) return
  const { host } = addressOf(postgres.url.reveal())
  if (host.startsWith('/') || !isExposed(`http://${host.includes(':') ? `[${host}]` : host}`)) return
  warning(
    ['journal', 'postgres'],
    'entries cross the network to another machine unencrypted: set tls: {}, or tls with its ca_file',
  )
}

/** Emits all warnings. `nowAt`: epoch ms. */
export function lint(loaded: LoadedConfig, nowAt: number, warning: Warn): void {
  const linting = { loaded, warning }
  checkSources(linting)
  checkTypes(linting)
  checkStarts(linting, nowAt)
  checkVaults(linting)
  checkIntervals(linting)
  checkKeptKeys(linting)
  checkIdleKeys(linting)
  checkHomes(linting)
  checkPostgresTls(linting)
}

// How much of the rate limit polling leaves to lookback and jobs (invariant 6).

/** With half the limit used by polls, lookback may use a quarter and jobs a tenth. */
const MOST_SHARE = 0.5
/** Jobs leave this share of the limit free: live reading that uses more takes theirs. */
const LEFT_BY_JOBS = 0.4
/** Busy polls send more requests; beyond this factor live reading has a backlog. */
const BUSY_POLLS = 2
/** One page with new entries, and `latest` to prove that it was the last. */
const AUDIT_REQUESTS = 2

interface Polls {
  readonly area: 'audit' | 'history'
  readonly intervalMs: number
  /** per poll */
  readonly requests: number
  /** false: no lookback for late entries */
  readonly isLookingBack: boolean
}

function pollsOf({ audit, history }: WorkspaceConfig): readonly Polls[] {
  const polls: Polls[] = []
  if (audit?.interval !== undefined)
    polls.push({
      area: 'audit',
      intervalMs: audit.interval,
      requests: AUDIT_REQUESTS,
      isLookingBack: audit.lookback > 0,
    })
  if (history)
    polls.push({
      area: 'history',
      intervalMs: history.interval,
      requests: Number(history.usage) + Number(history.query),
      isLookingBack: history.lookback > 0,
    })
  return polls
}

/** Requests per minute of one area. */
const rateOf = ({ intervalMs, requests }: Polls): number => (requests * MINUTE_MS) / intervalMs

/**
 * Areas whose intervals are so short that lookback and jobs get little more than their guaranteed
 * requests. `all`: includes other workspaces that share the key.
 */
function crowdedIntervals(
  workspace: WorkspaceConfig,
  all: readonly WorkspaceConfig[],
): readonly { readonly area: string; readonly why: string }[] {
  const sharing = sharingKey(workspace, all)
  return pollsOf(workspace).flatMap(({ area, isLookingBack }) => {
    const limit = Math.min(...sharing.map(({ rate_limits: limits }) => limits[area]))
    const polls = sharing.flatMap(pollsOf).filter((one) => one.area === area)
    const perMinute = sum(polls.map(rateOf))
    if (perMinute <= limit * MOST_SHARE) return []
    const leastMs = (sum(polls.map(({ requests }) => requests)) * MINUTE_MS) / (limit * MOST_SHARE)
    const others = sharing.filter(({ name }) => name !== workspace.name).map(({ name }) => name)
    const together = others.length > 0 ? ` together with ${others.join(', ')} (one key)` : ''
    const least = `${Math.ceil(leastMs / 1000)}s or more${others.length > 0 ? ' at each' : ''}`
    const little = `guaranteed ${guaranteedOf(limit)} requests a minute`
    const slow = isLookingBack
      ? `lookback gets little more than its ${little}, so late entries arrive later, and backfill, replay and reconcile are slow`
      : `backfill, replay and reconcile get little more than their ${little}`
    const why = `polling uses about ${Math.round(perMinute)} of the ${limit} requests a minute (rate_limits.${area})${together}: ${slow}; set ${least}`
    return [{ area, why }]
  })
}

/** Requests of the last minute: total, by live reading, allowed now, and the configured limit. */
interface MinuteUse {
  readonly permits: number
  readonly live: number
  readonly allowed: number
  readonly limit: number
}

/** Why a job waits for the rate limit, and which setting would leave it more. */
export function slowText(
  area: string,
  workspace: WorkspaceConfig,
  all: readonly WorkspaceConfig[],
  { permits, live, allowed, limit }: MinuteUse,
): string {
  const lowered = allowed < limit ? ` (${limit} before the API answered 429)` : ''
  const most = `${allowed} requests/min${lowered}`
  if (live <= allowed * LEFT_BY_JOBS)
    return permits >= allowed
      ? `all ${most} are used`
      : `${permits} of ${most} are used, the rest is kept for live polling`
  const sharing = sharingKey(workspace, all)
  const polls = sharing.flatMap((one) => pollsOf(one).filter((poll) => poll.area === area))
  const backlog = `live reading uses ${live} of ${most} to read a backlog. Jobs get at least ${guaranteedOf(allowed)} until that is read`
  if (sum(polls.map(rateOf)) * BUSY_POLLS < live) return backlog
  const names = sharing.length > 1 ? ` of ${sharing.map(({ name }) => name).join(', ')} (one key)` : ''
  return `live polling uses ${live} of ${most}. Increase ${area}.interval${names} to leave more`
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)
