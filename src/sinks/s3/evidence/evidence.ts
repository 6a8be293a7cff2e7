// Writes the chain of manifests: records what each acknowledgement stored.
// Once per interval it fixes, signs and stores a manifest.
import type { Clock } from '../../../core/clock.ts'
import { ConnectorError } from '../../../core/errors.ts'
import { MANIFEST_JOURNAL } from '../../../contracts/journal.ts'
import type { StateEntry } from '../../../contracts/journal.ts'
import type { Log } from '../../../core/log.ts'
import type { Evidence, EvidenceState, Memory, StoredRange } from '../../../contracts/sink.ts'
import {
  chainName,
  intervalOver,
  listSettled,
  MOST_RECORDS,
  objectOf,
  pendingName,
  readChain,
  readPending,
  readSettledNote,
  settledNote,
  settledPrefix,
  type Listed,
} from './intervals.ts'
import type { Chain, Pending, SettledNote } from './intervals.ts'
import { keyId, manifestKey, manifestLine, sha256, signedManifest, signingKey } from './manifest.ts'

/** While entries flow, a failed manifest is retried after this. */
const RETRY_MS = 30_000

/** Keys are relative to the sink's prefix. Both methods throw ConnectorError, as for objects. */
export interface ManifestStore {
  /** Never replaces: `there` if the key already exists. */
  put(key: string, body: Uint8Array, signal: AbortSignal): Promise<'stored' | 'exists'>
  /** Reads at most `mostBytes`. Undefined if this role may write but not read. */
  get(key: string, mostBytes: number, signal: AbortSignal): Promise<Uint8Array | undefined>
}

interface EvidenceOptions {
  readonly sink: string
  readonly bucket: string
  /** common prefix of all keys of the sink; '' for none */
  readonly prefix: string
  readonly intervalMs: number
  /** PEM file of the private key */
  readonly keyFile: string
  /** the current content of the file; may throw */
  readonly readKey?: (path: string) => string
  readonly store: ManifestStore
  readonly clock: Clock
  readonly log: Log
}

class ManifestChain implements Evidence {
  readonly #options: EvidenceOptions
  readonly #memory: Memory
  /** key of a manifest of this process before its first try: an object under its key is not ours */
  #fresh: string | undefined
  #retryAt = -Infinity

  constructor(options: EvidenceOptions, memory: Memory) {
    this.#options = options
    this.#memory = memory
  }

  stored({ first, last, parked, objects }: StoredRange): readonly StateEntry[] {
    const { sink, prefix } = this.#options
    const delivered = objects.reduce((sum, { count }) => sum + count, 0)
    const filtered = last - first + 1 - delivered - parked
    const listed = objects.map((object) => objectOf(object, prefix))
    return [settledNote(sink, { first, last, delivered, filtered, parked, objects: listed })]
  }

  async step(state: EvidenceState, signal: AbortSignal): Promise<number> {
    const { clock } = this.#options
    const waitMs = this.#retryAt - clock.elapsed()
    if (waitMs > 0 && !state.idle) return waitMs
    try {
      const dueInMs = await this.#goOn(state, signal)
      this.#retryAt = -Infinity
      return dueInMs
    } catch (error) {
      this.#retryAt = clock.elapsed() + RETRY_MS
      throw error
    }
  }

  async #goOn({ last }: EvidenceState, signal: AbortSignal): Promise<number> {
    const { sink, clock, intervalMs } = this.#options
    for (;;) {
      const waiting = await this.#memory.state.get(pendingName(sink))
      if (waiting !== undefined) await this.#store(readPending(sink, waiting), signal)
      const chain = await this.#chain()
      const nowAt = clock.now()
      const interval = intervalOver(chain, nowAt, intervalMs)
      if (typeof interval !== 'number') await this.#fix(chain, interval.untilAt)
      else if (last && (await this.#listable(chain))) await this.#fix(chain, nowAt)
      else return interval
    }
  }

  /** Batches acknowledged out of order, after a hole, cannot be listed yet. */
  async #listable({ through }: Chain): Promise<boolean> {
    const [oldest] = await this.#unlisted(1)
    return oldest !== undefined && oldest.settled.first <= Math.max(through, this.#position()) + 1
  }

  /** The oldest acknowledged batches that no manifest lists yet. */
  async #unlisted(limit: number): Promise<SettledNote[]> {
    return (await this.#memory.state.list(settledPrefix(this.#options.sink), limit)).map(readSettledNote)
  }

  /** Everything up to here is acknowledged. */
  #position(): number {
    const { sink: name } = this.#options
    const found = this.#memory.stats().sinks.find(({ sink }) => sink === name)
    if (!found) throw new Error(`No sink named ${name} is registered with the journal`)
    return found.position
  }

  /** A new chain begins at the sink's position: it says nothing about earlier objects. */
  async #chain(): Promise<Chain> {
    const { sink, clock } = this.#options
    const name = chainName(sink)
    const known = await this.#memory.state.get(name)
    if (known !== undefined) return readChain(sink, known)
    const [record] = await this.#unlisted(1)
    const position = this.#position()
    const through = record ? Math.min(position, record.settled.first - 1) : position
    const chain: Chain = { number: 0, sha256: '', fromAt: clock.now(), through }
    await this.#memory.state.put(name, JSON.stringify(chain))
    return chain
  }

  /** From here on the manifest's bytes are fixed, and no other manifest lists its batches. */
  async #fix(chain: Chain, untilAt: number): Promise<void> {
    const { sink } = this.#options
    // Read the position first: batches acknowledged after that are in the list that is read next.
    const position = this.#position()
    const records = await this.#unlisted(MOST_RECORDS + 1)
    const listed = listSettled(records, chain.through, position)
    const pending = await this.#sign(chain, listed, untilAt)
    const note = { name: pendingName(sink), value: JSON.stringify(pending) }
    await this.#memory.state.change({ drop: listed.records.map(({ name }) => name), put: [note] })
    this.#fresh = pending.key
  }

  async #sign(chain: Chain, listed: Listed, untilAt: number): Promise<Pending> {
    const { sink, bucket, prefix, clock, keyFile, readKey, intervalMs } = this.#options
    const { state } = this.#memory
    const instance = (await state.get(MANIFEST_JOURNAL)) ?? (await state.get('instance'))
    if (instance === undefined) throw new Error('The journal has no instance id yet')
    // Read again for each manifest: a changed key counts from the next one on.
    const key = signingKey(keyFile, readKey)
    const number = chain.number + 1
    const time = (at: number) => new Date(at).toISOString()
    const line = manifestLine({
      type: 'auditferry-manifest',
      version: 1,
      sink,
      journal: instance,
      number,
      stored_in: { bucket, prefix },
      previous: chain.number === 0 ? null : { number: chain.number, sha256: chain.sha256 },
      interval: { from: time(chain.fromAt), until: time(untilAt), every_seconds: intervalMs / 1000 },
      complete: listed.complete,
      made_at: time(clock.now()),
      key_sha256: keyId(key),
      sequence: { after: chain.through, through: listed.through },
      stretches: listed.stretches,
      gaps: listed.gaps,
      objects: listed.records.flatMap(({ settled }) => settled.objects),
    })
    const then: Chain = {
      number,
      sha256: sha256(line),
      through: listed.through,
      ...(listed.complete ? { fromAt: untilAt } : { fromAt: chain.fromAt, untilAt }),
    }
    const body = Buffer.from(signedManifest(line, key)).toString()
    return { key: manifestKey({ sink, journal: instance, number }), body, then }
  }

  async #store(pending: Pending, signal: AbortSignal): Promise<void> {
    const { sink, store, log } = this.#options
    const { key, body, then } = pending
    const answer = await store.put(key, Buffer.from(body), signal).catch((error: unknown) => {
      // The manifest may have arrived even if the answer failed.
      this.#fresh = undefined
      throw error
    })
    if (answer === 'exists') await this.#compare(pending, signal)
    this.#fresh = undefined
    await this.#memory.state.change({
      drop: [pendingName(sink)],
      put: [{ name: chainName(sink), value: JSON.stringify(then) }],
    })
    log.info('A manifest was stored', { number: then.number, sha256: then.sha256 })
  }

  /** The key exists: by our own earlier try whose answer was lost, or by another writer. */
  async #compare({ key, body }: Pending, signal: AbortSignal): Promise<void> {
    const { sink, store } = this.#options
    const ours = Buffer.from(body)
    // One byte more than ours proves that it differs, however long it is.
    const found = await store.get(key, ours.length + 1, signal)
    if (found && ours.equals(found)) return
    const forks =
      'two journals write the same chain (a copy, or a restored old backup), or another program stored it'
    if (found)
      throw new ConnectorError(
        'misconfigured',
        `Another manifest exists under ${key} already, so the manifest chain of sink ${sink} would split in two: ${forks}. Stop the other writer; to continue, give the sink another name and another prefix, where a new chain begins`,
      )
    // Without read access ours looks like another's. It is reported once and assumed to be ours, as
    // it nearly always is after a restart; otherwise `verify` detects it.
    if (this.#fresh !== key) return
    this.#fresh = undefined
    throw new ConnectorError(
      'misconfigured',
      `A manifest was already stored under ${key} when this process first sent it, and this role may not read it to compare. Either a proxy sent the request twice, or the chain of sink ${sink} has split in two: ${forks}. The next try assumes that the stored manifest is ours. Grant the role s3:GetObject on manifest/, and check the chain with auditferry verify`,
    )
  }
}

/** Reads nothing and opens no connection yet. */
export const openEvidence =
  (options: EvidenceOptions) =>
  (memory: Memory): Evidence =>
    new ManifestChain(options, memory)
