// A bucket as a sink: objects of many lines, each stored once, under a name from its content.
import type {
  CheckResult,
  Evidence,
  Memory,
  ObjectContent,
  ObjectLimits,
  ObjectSink,
  OpenObject,
  ReadyObject,
} from '../../contracts/sink.ts'
import type { SinkDeps, SinkKind } from '../../contracts/sink-kind.ts'
import { Certificates } from '../kit/certificate-expiry.ts'
import { lineFrame } from '../kit/body.ts'
import {
  bucketOf,
  filesOf,
  isUsualName,
  options,
  placeOf,
  type S3Options,
  unusualNameDoubt,
  urlsOf,
} from './options.ts'
import { lockedUntil } from './bucket.ts'
import { openEvidence } from './evidence/evidence.ts'
import { checkSigningKey } from './evidence/manifest.ts'
import { manifestStore } from './evidence-bucket.ts'
import { objectKey } from './object-key.ts'
import { lookAtFormer, Store } from './store.ts'
import { checkBucket, proveBucket } from './probe.ts'
import { clearSpools, Spool, type Spooled } from './spool.ts'

const contentTypes = {
  gzip: 'application/gzip',
  zstd: 'application/zstd',
  none: 'application/x-ndjson',
} as const

const assurance = 'stored'

class S3Sink implements ObjectSink {
  readonly type = 's3'
  readonly assurance = assurance
  readonly frame = lineFrame
  readonly name: string
  readonly shape: string
  readonly objects: ObjectLimits
  readonly evidence: ((memory: Memory) => Evidence) | undefined
  readonly #options: S3Options
  readonly #deps: SinkDeps
  readonly #store: Store
  readonly #certificates: Certificates
  readonly #open = new Set<Spool>()
  #proven = false

  constructor(name: string, s3: S3Options, deps: SinkDeps) {
    const { bucket, prefix, endpoint, compression, rotate } = s3
    this.name = name
    this.#options = s3
    this.#deps = deps
    this.shape = JSON.stringify({ bucket, prefix, endpoint, compression })
    this.objects = { maxBytes: rotate.max_bytes, maxAgeMs: rotate.max_age }
    this.#store = new Store(s3, deps)
    this.#certificates = new Certificates(urlsOf(s3), s3.tls, deps)
    this.evidence = s3.evidence && this.#evidence(s3.evidence)
  }

  #evidence({ signing_key_file: keyFile, interval }: NonNullable<S3Options['evidence']>) {
    const { clock, log } = this.#deps
    const { bucket, prefix } = this.#options
    const store = manifestStore(this.#store, this.#options, clock)
    return openEvidence({
      sink: this.name,
      bucket,
      prefix,
      intervalMs: interval,
      keyFile,
      clock,
      log,
      store: {
        ...store,
        put: async (key, body, signal) => {
          await this.probe(signal)
          return store.put(key, body, signal)
        },
      },
    })
  }

  async open(slot: number): Promise<OpenObject> {
    this.#certificates.lookDaily()
    const { disk, spoolFolder } = this.#deps
    const spool = await Spool.open(disk, spoolFolder, slot, this.#options.compression)
    this.#open.add(spool)
    const discard = () => this.#discard(spool)
    return {
      write: (lines) => spool.write(lines),
      end: async (content) => this.#ready(content, await spool.end(), discard),
      discard,
    }
  }

  /** Runs once with success, before anything is stored: detects a server that ignores a setting. */
  async probe(signal: AbortSignal): Promise<void> {
    if (this.#proven) return
    await proveBucket(this.#store, this.#options, this.#deps, signal)
    this.#proven = true
  }

  #ready(
    content: ObjectContent,
    { linesBytes, linesSha256, body, isDamaged }: Spooled,
    discard: () => Promise<void>,
  ): ReadyObject {
    const { prefix, compression } = this.#options
    const key = objectKey(prefix, content, linesSha256, compression)
    const stored = {
      ...content,
      key,
      linesBytes,
      linesSha256,
      bodySha256: body.sha256,
      bodyBytes: body.bytes,
    }
    return {
      put: async (signal) => {
        await this.probe(signal)
        const contentType = contentTypes[compression]
        const put = { contentType, lockedUntil: lockedUntil(this.#options, this.#deps.clock.now()) }
        const { outcome } = await this.#store.put(key, body, put, signal)
        if (outcome === 'exists') await lookAtFormer(this.#store, this.#options, key, this.#deps.log, signal)
        return { ...stored, alreadyStored: outcome === 'exists' }
      },
      isDamaged,
      discard,
    }
  }

  async #discard(spool: Spool): Promise<void> {
    this.#open.delete(spool)
    await spool.discard()
  }

  async check(signal: AbortSignal): Promise<readonly CheckResult[]> {
    const { evidence } = this.#options
    const key = evidence ? [checkSigningKey(evidence.signing_key_file)] : []
    const certificates = urlsOf(this.#options).map((url) => this.#certificates.results(url, signal))
    const bucket = await checkBucket(this.#store, this.#options, this.#deps, signal)
    return [...key, ...(await Promise.all(certificates)).flat(), ...bucket]
  }

  async close(): Promise<void> {
    this.#certificates.close()
    await Promise.all([...this.#open].map((spool) => this.#discard(spool)))
    await this.#store.close()
  }
}

export const s3: SinkKind<typeof options, ObjectSink> = {
  options,
  assurance: () => assurance,
  maxAgeMs: ({ rotate }) => rotate.max_age,
  marksReplay: () => true,
  to: (given) => [bucketOf(given)],
  urls: urlsOf,
  destination: placeOf,
  files: filesOf,
  idle: ({ bucket }) => (isUsualName(bucket) ? [] : [{ field: 'bucket', why: unusualNameDoubt }]),
  clearSpools,
  open: (name, s3Options, deps) => new S3Sink(name, s3Options, deps),
}
