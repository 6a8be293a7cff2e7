// Evidence on a real journal with a bucket in memory: entries go in, objects and manifests come out, and the process may die at any call.
import { overlay } from '../../../../src/core/overlay.ts'
import { createHash, generateKeyPairSync } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { openRegistered } from '../../../fakes/registered.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import type { Evidence, EvidenceState, Memory, StoredObject } from '../../../../src/contracts/sink.ts'
import { openEvidence, type ManifestStore } from '../../../../src/sinks/s3/evidence/evidence.ts'
import type { EvidenceStore, Finding } from '../../../../src/sinks/s3/verify/objects.ts'
import { verifyEvidence, type VerifyOptions } from '../../../../src/sinks/s3/verify/verify.ts'
import { readPublicKeys } from '../../../../src/sinks/s3/evidence/manifest.ts'
import { logOf, part, spec, START_US } from '../../../contract/journal-parts.ts'

export const HOUR_MS = 3_600_000
/** half past: so that the first interval is a short one */
export const BEGIN_AT = START_US / 1000 + 10 * HOUR_MS + 1_800_000

export interface KeyPair {
  readonly privatePem: string
  readonly publicPem: string
}

export function keyPair(): KeyPair {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return {
    privatePem: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    publicPem: publicKey.export({ type: 'spki', format: 'pem' }),
  }
}

/** The process is dead: not one of our errors, so that nothing may handle it. */
export class Death extends Error {
  override readonly name = 'Death'
}

/** Counts changing calls; dies in one of them, before or after it took effect. */
export class Fate {
  calls = 0
  #dieAt = Infinity
  #after = false

  dieAt(call: number, after: boolean): void {
    this.calls = 0
    this.#dieAt = call
    this.#after = after
  }

  async through<T>(work: () => Promise<T>): Promise<T> {
    const due = this.calls++ === this.#dieAt
    if (due && !this.#after) throw new Death('before the call')
    const result = await work()
    if (due) throw new Death('after the call')
    return result
  }
}

const at = (key: string): string => createHash('sha256').update(key).digest('hex')
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

export class MemoryBucket implements ManifestStore {
  readonly objects = new Map<string, Buffer>()
  readonly fate: Fate
  /** of put: throws instead of storing, or of answering */
  refuse: (() => Error) | undefined
  loseAnswer = false
  mayRead = true

  constructor(fate: Fate) {
    this.fate = fate
  }

  async put(key: string, body: Uint8Array): Promise<'stored' | 'exists'> {
    if (this.refuse) throw this.refuse()
    return this.fate.through(async () => {
      if (this.objects.has(key)) return 'exists'
      this.objects.set(key, Buffer.from(body))
      if (this.loseAnswer) throw new Death('the answer was lost')
      return 'stored'
    })
  }

  async get(key: string, mostBytes: number): Promise<Uint8Array | undefined> {
    return this.mayRead ? this.objects.get(key)?.subarray(0, mostBytes) : undefined
  }

  /** As a verifier sees it, in a meaningless order. */
  seen(): EvidenceStore {
    const keys = [...this.objects.keys()].sort((a, b) => (at(a) < at(b) ? -1 : 1))
    return {
      list: () => listed(keys),
      get: async (key) => {
        const body = this.objects.get(key)
        return body && pieces(body)
      },
    }
  }

  keys(beginning: string): string[] {
    return [...this.objects.keys()].filter((key) => key.startsWith(beginning)).sort()
  }
}

async function* listed(keys: readonly string[]) {
  yield* keys
}

async function* pieces(body: Buffer) {
  for (let from = 0; from < body.length; from += 7_000) yield body.subarray(from, from + 7_000)
}

const packers = { '.gz': gzipSync, '.zst': zstdCompressSync, '': (bytes: Uint8Array) => Buffer.from(bytes) }
type Packed = keyof typeof packers

interface ShipOptions {
  readonly filtered?: number
  readonly parked?: number
  readonly packed?: Packed
  readonly evidence?: boolean
}

export class Setup {
  readonly fate = new Fate()
  readonly bucket = new MemoryBucket(this.fate)
  readonly keys = keyPair()
  readonly log: string[] = []
  readonly clock = {
    nowMs: BEGIN_AT,
    now: () => this.clock.nowMs,
    elapsed: () => this.clock.nowMs,
    sleep: async () => {},
  }
  readonly sink: string
  readonly prefix = 'logs/acme'
  readonly storedIn = { bucket: 'acme-audit', prefix: 'logs/acme' }
  pem = this.keys.privatePem
  intervalMs = HOUR_MS
  evidence!: Evidence
  journal!: Journal
  readonly #folder: string
  #entries = 0

  private constructor(folder: string, sink: string) {
    this.#folder = folder
    this.sink = sink
  }

  static async open(sink = 'archive'): Promise<Setup> {
    const setup = new Setup(await mkdtemp(join(tmpdir(), 'auditferry-evidence-')), sink)
    await setup.#start()
    await setup.journal.state.put('instance', 'a1b2c3d4e5f6a1b2c3d4e5f6')
    return setup
  }

  async #start(): Promise<void> {
    const { clock } = this
    this.journal = await openRegistered({
      ...{ path: join(this.#folder, 'journal.db'), sinks: [this.sink], ballastBytes: 0, clock, log: logOf() },
      ...{ maxBytes: 2 ** 30, keepKeysMs: 35 * 24 * HOUR_MS, keepDeliveredBytes: 2 ** 30 },
    })
    this.evidence = this.anew()
  }

  /** As another process would start. */
  anew(): Evidence {
    const { journal, fate, sink, bucket, clock, intervalMs } = this
    const memory: Memory = {
      state: overlay(journal.state, {
        put: (name, value) => fate.through(() => journal.state.put(name, value)),
        change: (change) => fate.through(() => journal.state.change(change)),
      }),
      stats: () => journal.stats(),
    }
    const readKey = () => this.pem
    const options = {
      sink,
      ...this.storedIn,
      intervalMs,
      readKey,
      keyFile: '/etc/key.pem',
      store: bucket,
      clock,
    }
    return openEvidence({ ...options, log: logOf(this.log) })(memory)
  }

  async restart(): Promise<void> {
    this.fate.dieAt(Infinity, false)
    await this.journal.close()
    await this.#start()
  }

  async close(): Promise<void> {
    await this.journal.close()
    await rm(this.#folder, { recursive: true, force: true })
  }

  readonly busy: EvidenceState = { idle: false, last: false }
  readonly idle: EvidenceState = { idle: true, last: false }
  readonly last: EvidenceState = { idle: true, last: true }

  step(state: EvidenceState = this.idle): Promise<number> {
    return this.evidence.step(state, new AbortController().signal)
  }

  /** To just behind the next round hour, and the manifest that is due then. */
  async hour(): Promise<void> {
    this.clock.nowMs = (Math.floor(this.clock.nowMs / HOUR_MS) + 1) * HOUR_MS + 500
    await this.step()
  }

  async append(count: number): Promise<void> {
    const specs = Array.from({ length: count }, (_, i) =>
      spec(this.#entries + i + 1, { body: 'x'.repeat(i % 40) }),
    )
    this.#entries += count
    await this.journal.append(part(specs))
  }

  /** Takes up to `count` entries, stores all but the `filtered` first of them in two objects, acknowledges. */
  async runDispatcher(count: number, options: ShipOptions = {}) {
    const { filtered = 0, parked = 0, packed = '.gz', evidence = true } = options
    const batch = await this.journal.take(this.sink, { maxEntries: count, maxBytes: 2 ** 30 })
    if (!batch) throw new Error('nothing is owed')
    const lines: { seq: number; us: number; bytes: Buffer }[] = []
    for (const { firstSeq, entries } of batch.slices)
      for (let i = 0; i < entries.count; i++)
        lines.push({
          seq: firstSeq + i,
          us: entries.at(i),
          bytes: Buffer.concat([entries.raw(i), Buffer.from('\n')]),
        })
    const kept = lines.slice(filtered + parked)
    const objects = [0, 1].flatMap((half) => {
      const own = kept.filter((_, i) => i % 2 === half)
      return own.length === 0 ? [] : [this.#object(own, half, packed)]
    })
    const { first, last } = batch
    const state = evidence ? this.evidence.stored({ first, last, parked, objects }) : undefined
    await this.fate.through(() =>
      this.journal.ack(this.sink, {
        ...{ first, through: last, accepted: kept.length, filtered, state },
        rejected: lines
          .slice(filtered, filtered + parked)
          .map(({ seq }) => ({ seq, code: 'refused', reason: 'r' })),
      }),
    )
  }

  #object(own: { seq: number; us: number; bytes: Buffer }[], half: number, packed: Packed): StoredObject {
    const whole = Buffer.concat(own.map(({ bytes }) => bytes))
    const [first, last] = [own[0]?.seq ?? 0, own.at(-1)?.seq ?? 0]
    const group = {
      stream: { workspace: 'acme', source: half === 0 ? 'audit' : 'history.usage' } as const,
      day: '2026-01-31',
      replay: undefined,
    }
    const digits = (seq: number) => String(seq).padStart(16, '0')
    const name = `workspace=acme/source=${group.stream.source}/dt=2026-01-31/${digits(first)}-${digits(last)}-${sha256(whole).slice(0, 16)}.ndjson${packed}`
    const body = packers[packed](whole)
    const there = this.bucket.objects.has(name)
    if (!there) this.bucket.objects.set(name, body)
    return {
      ...{ group, first, last, count: own.length, firstAtUs: own[0]?.us ?? 0, lastAtUs: own.at(-1)?.us ?? 0 },
      ...{
        key: `${this.prefix}/${name}`,
        linesBytes: whole.length,
        linesSha256: sha256(whole),
        alreadyStored: there,
      },
      ...{ bodySha256: sha256(body), bodyBytes: body.length },
    }
  }

  /** What verify says, as lines. */
  async verify(options: Partial<VerifyOptions> = {}) {
    const findings: Finding[] = []
    const publicKeys = readPublicKeys(this.keys.publicPem)
    const verified = await verifyEvidence(
      this.bucket.seen(),
      { keys: publicKeys, storedIn: this.storedIn, ...options },
      (finding) => findings.push(finding),
    )
    const lines = (level: Finding['level']) =>
      findings.filter((finding) => finding.level === level).map(({ where, what }) => `${where} ${what}`)
    return { ...verified, faultLines: lines('fault'), noteLines: lines('note') }
  }

  manifest(number: number): Record<string, unknown> {
    const key = this.bucket.keys('manifest/').find((name) => name.endsWith(`${number}.ndjson`)) ?? ''
    const text = this.bucket.objects.get(key)?.toString() ?? ''
    return JSON.parse(text.slice(0, text.indexOf('\n'))) as Record<string, unknown>
  }
}
