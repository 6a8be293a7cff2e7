// One workspace: its API, key, sources and schedules.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { SourceName } from '../contracts/source.ts'
import { DAY_MS } from '../core/time.ts'
import { duration, secret } from '../core/units.ts'
import {
  dayPattern,
  instantUs,
  baseUrl,
  exposedFault,
  interval,
  isExposed,
  isRecord,
  partName,
  start,
  typeGlobs,
} from './fields.ts'

// The canary: whether and how often a test prompt is sent.

const canary = () =>
  z.strictObject({
    enabled: z
      .boolean()
      .default(false)
      .describe('Send a tiny prompt now and then and measure when its traces come back.'),
    interval: duration()
      .refine((ms) => ms >= 60_000, 'expected at least 1m: each one is a prompt to the assistant')
      .prefault('1h')
      .describe('How often to send one.'),
  })

// The history: events, version, schedule and lookback.

const isDay = (text: string): boolean => dayPattern.test(text) && Number.isFinite(instantUs(text))

/** A UTC day such as 2026-04-01, parsed to epoch ms of its midnight. */
const day = () =>
  z
    .string()
    .refine(isDay, 'expected a UTC day such as 2026-04-01')
    .transform((text) => instantUs(text) / 1000)

function checkContradictions(value: unknown, context: z.RefinementCtx): void {
  if (!isRecord(value)) return
  if (value['usage'] === false && (value['query'] ?? false) === false)
    context.addIssue({
      code: 'custom',
      path: ['usage'],
      message: 'usage and query are both off: switch one on, or leave history out',
    })
  if (value['version'] === 'v1' && value['v1_until'] !== undefined)
    context.addIssue({
      code: 'custom',
      path: ['v1_until'],
      message: 'says when version v2 begins, and version is v1: set version: v2, or leave it out',
    })
}

const history = () =>
  z
    .strictObject({
      version: z.enum(['v2', 'v1']).default('v2').describe('Version of the history API.'),
      v1_until: day()
        .optional()
        .describe('With v2: UTC days before this one are read as v1. Leave it there after the change.'),
      usage: z
        .boolean()
        .default(true)
        .describe('Read usage events: who did what, without any text. Source history.usage.'),
      query: z
        .boolean()
        .default(false)
        .describe(
          'Read query events with the full text of prompts and responses. Source history.query, for sinks that name it.',
        ),
      interval: interval().prefault('15m').describe('How often the open day is read again.'),
      start: start()
        .prefault('7d')
        .describe(
          'Where the first read begins: latest, a span back from now, a time (UTC without a zone), or earliest (a year back).',
        ),
      lookback: duration()
        .prefault('3d')
        .describe(
          'The trailing span whose days are read again for events that come late or change; 0s turns it off.',
        ),
    })
    .superRefine(checkContradictions, { when: () => true })

/** Events whose keys are forgotten would count as new. Whole days are read: one day more. */
export function historyLookbackFault(lookbackMs: unknown, retentionMs: unknown): string | undefined {
  if (typeof lookbackMs !== 'number' || typeof retentionMs !== 'number') return undefined
  if (lookbackMs === 0 || lookbackMs + DAY_MS <= retentionMs) return undefined
  return 'with the day that it begins in it is longer than journal.dedup_retention: events read again would count as new and be sent twice; shorten it or lengthen dedup_retention'
}

// The vault: whether and how often projects are read.

const vault = () =>
  z.strictObject({
    projects: z
      .boolean()
      .default(false)
      .describe(
        'Read the list of projects: an inventory, then its changes. Source vault.projects. The key needs the permission View workspace projects.',
      ),
    interval: interval()
      .prefault('6h')
      .describe('How long to wait after the list was read to its end until it is read again.'),
  })

const audit = () =>
  z.strictObject({
    activity: z
      .enum(['high', 'medium', 'low', 'auto'])
      .default('medium')
      .describe(
        'How busy the workspace is: high reads every 5 min, medium every 15 min, low every hour, auto follows the traffic.',
      ),
    interval: interval().optional().describe("How often to read, over the activity's own."),
    start: start()
      .prefault('earliest')
      .describe(
        'Where the first read begins: earliest, latest, a span back from now, or a time (UTC without a zone).',
      ),
    types: typeGlobs().describe(
      "Patterns over an entry's type; the last that matches decides, ! takes away again. Of a type over 16 KiB its beginning counts. Other entries are counted and not kept.",
    ),
    lookback: duration()
      .prefault('24h')
      .describe(
        'The trailing span that is read again for entries which become visible late, as far as `journal.dedup_retention` goes; 0s turns it off.',
      ),
  })

const perMinute = (limit: number, area: string) =>
  z.int().min(1).default(limit).describe(`Requests a minute to the ${area} API.`)

const rateLimits = () =>
  z.strictObject({
    audit: perMinute(60, 'audit log'),
    history: perMinute(60, 'history'),
    vault: perMinute(10, 'vault'),
    assistant: perMinute(20, 'assistant'),
  })

export const workspace = z
  .strictObject({
    name: partName().describe(
      'Unique name in metrics, logs and lines: small letters, digits, hyphens. A renamed workspace is a new one, read and sent from its `start`.',
    ),
    base_url: baseUrl().describe("Address of the workspace's API, such as https://api.example.com."),
    api_key: secret().describe('API key, best as ${file:/run/secrets/auditferry/api-key}.'),
    audit: audit().optional().describe('The audit log. Present is on; {} takes the defaults.'),
    history: history().optional().describe('Usage and query history. Present is on; {} takes the defaults.'),
    vault: vault()
      .optional()
      .describe('The vault: its projects and with whom they are shared. On where projects is true.'),
    canary: canary()
      .optional()
      .describe('A prompt of our own now and then, followed from the API to each sink. Not of `run --once`.'),
    rate_limits: rateLimits()
      .prefault({})
      .describe(
        'Requests a minute for this key. Workspaces with the same key and host share them; the lowest applies. After a rotation both keys count together for two minutes.',
      ),
    expected_user_agents: z
      .array(z.string().min(1))
      .default([])
      .describe(
        'Patterns over the whole User-Agent of other tools of this user, such as `compliance-export/*`; their fetches are no findings.',
      ),
    allow_insecure: z.boolean().default(false).describe('Allow plain http to another machine.'),
  })
  .superRefine(
    (value: unknown, context) => {
      if (!isRecord(value) || value['allow_insecure'] === true) return
      const url = value['base_url']
      if (typeof url === 'string' && isExposed(url))
        context.addIssue({ code: 'custom', path: ['base_url'], message: exposedFault })
    },
    // Runs even if another field is invalid, to report all faults at once.
    { when: () => true },
  )
  .describe('One workspace: its API, its key and what to read.')

/** Entries whose keys are forgotten would count as new. The default adapts to the retention. */
export function auditLookbackFault(lookbackMs: unknown, retentionMs: unknown): string | undefined {
  if (typeof lookbackMs !== 'number' || typeof retentionMs !== 'number') return undefined
  if (lookbackMs <= retentionMs || lookbackMs === DAY_MS) return undefined
  return 'is longer than journal.dedup_retention: entries read again would count as new and be sent twice; shorten it or lengthen dedup_retention'
}

export type WorkspaceConfig = z.output<typeof workspace>

/** Sources that are switched on. */
export function sourcesOf({ audit, history, vault }: WorkspaceConfig): readonly SourceName[] {
  const on: readonly (readonly [SourceName, boolean])[] = [
    ['audit', Boolean(audit)],
    ['history.usage', Boolean(history?.usage)],
    ['history.query', Boolean(history?.query)],
    ['vault.projects', Boolean(vault?.projects)],
  ]
  return on.filter(([, isOn]) => isOn).map(([name]) => name)
}

// Workspaces that share a key on a host, by a truncated hash that the journal may store.

type Keyed = Pick<WorkspaceConfig, 'base_url' | 'api_key'>

/** Uses the current key, which may be rotated. */
export function keyIdOf({ base_url, api_key }: Keyed): string {
  const text = `${new URL(base_url).host}\n${api_key.reveal()}`
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

/** Workspaces of `all` with the same key and host, including itself. */
export function sharingKey<T extends Keyed>(workspace: Keyed, all: readonly T[]): readonly T[] {
  const key = keyIdOf(workspace)
  return all.filter((other) => keyIdOf(other) === key)
}
