// The configuration schema: every key, default and description. Durations are ms, sizes bytes.
import { z } from 'zod'
import { duration, secret } from '../core/units.ts'
import { plainName, urlFault } from '../journal/postgres/address.ts'
import { tlsOptions } from '../sinks/kit/options.ts'
import type { Path } from './faults.ts'
import { hostName, isRecord, listen, sizeFrom } from './fields.ts'
import { auditLookbackFault, historyLookbackFault, sourcesOf } from './workspace.ts'
import { type WorkspaceConfig, workspace } from './workspace.ts'
import { sink } from './sink.ts'

export { sourcesOf, type WorkspaceConfig } from './workspace.ts'
export { sinkFiles, type SinkConfig } from './sink.ts'

const MOST_ENTRY_BYTES = 256 * 2 ** 20

const limits = () =>
  z.strictObject({
    max_entry_bytes: sizeFrom(1024, '1KiB')
      .refine(
        (bytes) => bytes <= MOST_ENTRY_BYTES,
        'expected at most 256MiB: memory holds an entry whole, several times over',
      )
      .prefault('16MiB')
      .describe(
        'A larger entry is quarantined with its first MiB, length and hash. At most `256MiB`: memory and the ballast hold it several times.',
      ),
    max_depth: z
      .int()
      .min(1)
      .max(100_000)
      .default(512)
      .describe('How deep an entry may nest; a deeper one is quarantined.'),
  })

const postgres = () =>
  z.strictObject({
    url: secret()
      .superRefine((url, context) => {
        const message = urlFault(url.reveal())
        if (message !== undefined) context.addIssue({ code: 'custom', message })
      })
      .describe(
        '`postgres://user:password@host:5432/database`, best as ${file:…}: user and password are read again for each new connection.',
      ),
    schema: z
      .string()
      .regex(plainName, 'expected a to z, digits and _, beginning with no digit, 51 at most')
      .default('auditferry')
      .describe('The schema of `auditferry journal migrate`.'),
    shards: z
      .int()
      .min(1)
      .max(64)
      .default(8)
      .describe('Parts into which workspaces are divided, `64` at most; a replica holds whole ones.'),
    lease: duration()
      .refine((ms) => ms >= 3000 && ms <= 300_000, 'expected 3s to 5m')
      .prefault('10s')
      .describe('How long a dead replica still holds its shards, `3s` to `5m`.'),
    tls: tlsOptions().describe('Present: TLS, with the certificate and its name verified.'),
  })

const journal = () =>
  z.strictObject({
    path: z
      .string()
      .min(1)
      .default('/var/lib/auditferry/auditferry.db')
      .describe('The file of state, on a local disk.'),
    postgres: postgres()
      .optional()
      .describe('A database instead of `path`, for several replicas; sizes here hold for each shard.'),
    max_bytes: sizeFrom(1024, '1KiB')
      .prefault('2GiB')
      .describe(
        'Pending payload: once it is reached reading pauses, nothing is dropped. The append that reaches it is kept as a whole, so up to 4 MiB, or one larger entry, may exceed it.',
      ),
    dedup_retention: duration()
      .refine((ms) => ms >= 3_600_000, 'expected at least 1h, or entries read again would count as new')
      .prefault('35d')
      .describe('How long ids are remembered to recognise duplicates.'),
    keep_delivered: sizeFrom(0, '0B')
      .prefault('256MiB')
      .describe(
        'Delivered chunks that are kept for replay, what a replay sent again among them; a sink that is new begins with them.',
      ),
    limits: limits().prefault({}).describe('Limits for one entry.'),
  })

const server = () =>
  z.strictObject({
    listen: listen()
      .prefault('127.0.0.1:9464')
      .describe(
        'host:port of metrics, probes and status page. Without it the variable AUDITFERRY_LISTEN applies, as in the image.',
      ),
    allowed_hosts: z
      .array(hostName())
      .default([])
      .describe(
        'Host names of the listener beside IP addresses, `localhost`, the host of `listen` and the name of this machine; others get 421. The variable AUDITFERRY_ALLOWED_HOSTS adds more, separated by commas.',
      ),
  })

const log = () =>
  z.strictObject({
    level: z
      .enum(['debug', 'info', 'warn', 'error'])
      .default('info')
      .describe('The least grave lines that are written, as JSON on standard error.'),
  })

type Issue = (path: PropertyKey[], message: string) => void

function uniqueNames(group: string, list: readonly unknown[], issue: Issue): void {
  const seen = new Map<unknown, number>()
  for (const [index, part] of list.entries()) {
    const name = isRecord(part) ? part['name'] : undefined
    if (typeof name !== 'string') continue
    const before = seen.get(name)
    if (before === undefined) seen.set(name, index)
    else issue([group, index, 'name'], `is the name of ${group}[${before}] already: use a unique one`)
  }
}

function someSource(workspaces: readonly unknown[], issue: Issue): void {
  // A switched-on source with faults counts as on: the faults are reported separately.
  const on = workspaces.some(
    (part) =>
      !isRecord(part) ||
      part['audit'] !== undefined ||
      sourcesOf(part as unknown as WorkspaceConfig).length > 0,
  )
  if (!on)
    issue(['workspaces'], 'no workspace has a source switched on: set audit: {} in at least one of them')
}

function lookbackWithinRetention(workspaces: readonly unknown[], journal: unknown, issue: Issue): void {
  for (const [index, part] of workspaces.entries()) {
    if (!isRecord(part) || !isRecord(journal)) continue
    const { history, audit } = part
    const retention = journal['dedup_retention']
    const tooLong = isRecord(history) && historyLookbackFault(history['lookback'], retention)
    if (tooLong) issue(['workspaces', index, 'history', 'lookback'], tooLong)
    const fault = isRecord(audit) && auditLookbackFault(audit['lookback'], retention)
    if (fault) issue(['workspaces', index, 'audit', 'lookback'], fault)
  }
}

export const configSchema = z
  .strictObject({
    journal: journal().prefault({}).describe('Where what was read is kept until every sink has it.'),
    workspaces: z.array(workspace).min(1).describe('What to read: one item per workspace.'),
    sinks: z.array(sink).min(1).describe('Where to deliver: one item per receiver.'),
    server: server().prefault({}).describe('The listener for metrics, probes and the status page.'),
    log: log().prefault({}).describe("The daemon's own log."),
  })
  .superRefine(
    (value: unknown, context) => {
      if (!isRecord(value)) return
      const issue: Issue = (path, message) => context.addIssue({ code: 'custom', path, message })
      for (const group of ['workspaces', 'sinks'])
        if (Array.isArray(value[group])) uniqueNames(group, value[group] as unknown[], issue)
      const workspaces: unknown = value['workspaces']
      if (Array.isArray(workspaces) && workspaces.length > 0) someSource(workspaces as unknown[], issue)
      if (Array.isArray(workspaces)) lookbackWithinRetention(workspaces as unknown[], value['journal'], issue)
    },
    { when: () => true },
  )

export type Config = z.output<typeof configSchema> & {
  /** Paths of values from files or variables, which are masked unless their keys are harmless. */
  readonly referenced?: readonly Path[]
}

/** The parts of JSON Schema that are used here. */
export interface Shape {
  readonly description?: string
  readonly default?: unknown
  readonly pattern?: string
  readonly type?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: Shape
  readonly oneOf?: readonly Shape[]
  readonly anyOf?: readonly Shape[]
}

/** JSON Schema (draft-07) of the configuration file. */
export function configJsonSchema(): Shape {
  return z.toJSONSchema(configSchema, { io: 'input', target: 'draft-7' }) as Shape
}

/** The one for a `type` of sink. */
export const variantOf = ({ oneOf = [] }: Shape, type: unknown): Shape | undefined =>
  oneOf.find(({ properties }) => properties?.['type']?.const === type)
