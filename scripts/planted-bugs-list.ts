// The planted bugs, as data: each breaks one invariant by one small edit and names the tests that must notice.

export interface Edit {
  readonly file: string
  /** occurs in the file exactly once */
  readonly find: string
  readonly replace: string
}

/** A test of one file, or a range of simulated seeds of which one at least must fail. */
export type Detector =
  { readonly file: string; readonly title: string } | { readonly seeds: number; readonly from: number }

/** Enough lives that what the simulation can notice shows in several of them. */
const someSeeds: Detector = { seeds: 25, from: 1 }

export interface PlantedBug {
  readonly name: string
  /** as numbered in the design */
  readonly invariant: string
  readonly edits: readonly Edit[]
  readonly tests: readonly Detector[]
  /** What the detectors' output must say, so that a bug is not taken for caught because its code does not even run. */
  readonly says: RegExp
}

export const plantedBugs: readonly PlantedBug[] = [
  {
    name: 'the cursor moves before its entries, in a transaction of its own',
    invariant: '1: new entries, their keys and the cursor are stored together or not at all',
    edits: [
      {
        file: 'src/journal/sqlite/append.ts',
        find: '  const appended = explaining(core, bytes,',
        replace: `  if (part.cursor !== undefined)
    transactions.writeNew(() => statements.source.run(part.cursor ?? null, 0, source), bytes)
  const appended = explaining(core, bytes,`,
      },
    ],
    tests: [
      { file: 'test/contract/journal.test.ts', title: 'a crash inside an append leaves nothing of it' },
    ],
    says: /expected 'c2' to be 'c1'/,
  },
  {
    name: 'the ingest loop stores the cursor before the entries',
    invariant: '1: after a crash before the append the page is read again',
    edits: [
      {
        file: 'src/ingest/loop.ts',
        find: '  const appended = await journal.append({',
        replace: `  if (cursor !== undefined)
    await journal.append({ stream: source.stream, entries: entries.pick([]), quarantined: [], findings: [], headUs, cursor, gaps: 0, wanted })
  const appended = await journal.append({`,
      },
    ],
    tests: [
      {
        file: 'test/unit/ingest/crash.test.ts',
        title: 'no crash between two appends leaves a cursor ahead of its entries',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'the sink’s position moves before the receiver answers',
    invariant: '2: everything up to the position is acknowledged',
    edits: [
      {
        file: 'src/delivery/dispatcher.ts',
        find: '      outcome = await sink.deliver(delivery, signal)\n',
        replace: `      const { first, last: through } = loaded
      await this.#options.journal.ack(sink.name, { first, through, rejected: [] })
      outcome = await sink.deliver(delivery, signal)\n`,
      },
    ],
    tests: [someSeeds],
    says: /is missing|settled before they were safe/,
  },
  {
    name: 'a batch is sent before it is recorded as in flight',
    invariant: '2: a batch is recorded as in flight before it is sent',
    edits: [
      {
        file: 'src/delivery/dispatcher.ts',
        find: '      await journal.recordInFlight(sink.name, inFlight)\n',
        replace: '',
      },
      {
        file: 'src/delivery/dispatcher.ts',
        find: '{ ...acknowledgement, next })',
        replace: '{ ...acknowledgement })',
      },
    ],
    tests: [
      {
        file: 'test/unit/delivery/dispatcher.test.ts',
        title: 'an in-flight record is on the disk before its batch is sent',
      },
      { seeds: 10, from: 34 },
    ],
    says: /AssertionError|lines stand twice|in JSON at position/,
  },
  {
    name: 'a batch is given up after eight tries',
    invariant: '3: no retry cap',
    edits: [
      {
        file: 'src/delivery/dispatcher.ts',
        find: '      this.#release(loaded)\n      sending.loaded = undefined\n      throw error\n',
        replace: `      const counted = sending as unknown as { tries?: number }
      counted.tries = (counted.tries ?? 0) + 1
      if (counted.tries >= 8)
        return await this.#answer({ inFlight, loaded, outcome: { acknowledged: loaded.lines.count, rejected: [] } }, signal)
      this.#release(loaded)
      sending.loaded = undefined
      throw error\n`,
      },
    ],
    tests: [
      {
        file: 'test/unit/delivery/no-cap.test.ts',
        title: 'a batch that failed a hundred times is still pending and goes out unchanged',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a line to be retried counts as accepted',
    invariant: '2: the position passes no entry without a result',
    edits: [
      {
        file: 'src/delivery/acknowledgements.ts',
        find: 'if (!again.has(i)) this.left',
        replace: 'if (again) this.left',
      },
    ],
    tests: [
      {
        file: 'test/unit/delivery/line-results.test.ts',
        title: 'whatever each try answers: every line is accepted once or a dead letter, and nothing else',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a receiver that rejects everything turns the whole stream into dead letters',
    invariant: '3: a rejected entry is isolated; wrong settings block',
    edits: [
      {
        file: 'src/delivery/dispatcher.ts',
        find: 'return this.#inARow >= MAX_IN_A_ROW',
        replace: 'return this.#inARow < 0',
      },
    ],
    tests: [
      {
        file: 'test/unit/delivery/refusals-in-a-row.test.ts',
        title:
          'a proxy that corrupts every body condemns no entry: few dead letters, and the sink is blocked',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'at max_bytes the oldest pending entries are dropped',
    invariant: '3: no drop-oldest; at max_bytes reading pauses',
    edits: [
      {
        file: 'src/journal/sqlite/append.ts',
        find: '  if (pending.bytes < maxBytes) return\n',
        replace: `  if (pending.bytes < maxBytes) return
  for (const name of pending.sinks.keys()) {
    const range = { first: 1, last: pending.lastSeq }
    pending.applyAck(name, pending.writeAck(name, range), { count: 0, bytes: 0 })
  }
  if (pending.bytes < maxBytes) return\n`,
      },
    ],
    tests: [
      {
        file: 'test/contract/journal.test.ts',
        title: 'at the limit of pending bytes a page chunk is refused whole; delivered bytes do not count',
      },
    ],
    says: /promise resolved/,
  },
  {
    name: 'quarantine keeps the reason without the bytes',
    invariant: '3: what the source sends malformed is quarantined as raw bytes',
    edits: [
      {
        file: 'src/journal/sqlite/quarantine.ts',
        find: 'insert.run(source, reason, totalBytes, sha256, now, bytes).changes',
        replace: 'insert.run(source, reason, totalBytes, sha256, now, bytes.subarray(0, 0)).changes',
      },
    ],
    tests: [
      {
        file: 'test/contract/journal.test.ts',
        title: 'quarantine lists without bytes, page by page, and returns the bytes by id',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a rejected API key stops the process',
    invariant: '3: 401 and 403 block and are retried slowly',
    edits: [{ file: 'src/core/errors.ts', find: "unauthorized: 'block'", replace: "unauthorized: 'exit'" }],
    tests: [
      {
        file: 'test/unit/ingest/blocked.test.ts',
        title:
          'a key that is refused as unauthorized blocks the source, which retries for as long as it takes',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a line is the entry parsed and serialised',
    invariant: '4: bytes, not objects',
    edits: [
      {
        file: 'src/formats/raw.ts',
        find: `export const raw: Format = ({ entries }, index, out) => {
  out.copy(entries.bytes, entries.column(index, RAW_START), entries.column(index, RAW_END))`,
        replace: `export const raw: Format = ({ entries }, index, out) => {
  const bytes = entries.bytes.subarray(entries.column(index, RAW_START), entries.column(index, RAW_END))
  out.text(JSON.stringify(JSON.parse(Buffer.from(bytes).toString())))`,
      },
    ],
    tests: [
      {
        file: 'test/unit/formats/formats.test.ts',
        title: 'raw is the entry byte for byte, white space and big numbers and all',
      },
      someSeeds,
    ],
    says: /AssertionError|is not what the API sent/,
  },
  {
    name: 'readers may use the whole memory budget',
    invariant: '4: all bodies and batches stay within 32 MB; readers never block a sink',
    edits: [
      {
        file: 'src/core/memory-budget.ts',
        find: 'const reading = new MemoryBudget(READING_BYTES, all)',
        replace: 'const reading = new MemoryBudget(READING_BYTES + SINKS_BYTES, all)',
      },
    ],
    tests: [
      {
        file: 'test/unit/core/memory-budget.test.ts',
        title: 'readers and sinks hold no more than 32 MiB together, and no reader enters the sinks’ half',
      },
      {
        file: 'test/unit/app/app.test.ts',
        title: 'twelve APIs that stall in the middle of their answers keep no sink from sending',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'what readers use does not count in the memory budget',
    invariant: '4: all bodies and batches of the process stay within 32 MB',
    edits: [
      {
        file: 'src/core/memory-budget.ts',
        find: 'const reading = new MemoryBudget(READING_BYTES, all)',
        replace: 'const reading = new MemoryBudget(READING_BYTES)',
      },
    ],
    tests: [
      {
        file: 'test/unit/core/memory-budget.test.ts',
        title: 'readers and sinks hold no more than 32 MiB together, and no reader enters the sinks’ half',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a sink takes another sink’s share of memory',
    invariant: '2: a stalled sink never blocks others',
    edits: [
      {
        file: 'src/core/memory-budget.ts',
        find: "new MemoryBudget(sinkBytes, all, 'in_turn', large)",
        replace: "new MemoryBudget(SINKS_BYTES, all, 'in_turn', large)",
      },
    ],
    tests: [
      {
        file: 'test/unit/core/memory-budget.test.ts',
        title:
          'each sink has an equal share of its own: however many are full, its batch and the prefetched one enter at once',
      },
      {
        file: 'test/unit/delivery/isolation.test.ts',
        title: 'hung receivers (12, batches of 16777216 bytes)',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a permit is free 60 s after the request, not after the answer',
    invariant: '5: never more than the limit in any rolling minute as the server counts it',
    edits: [
      {
        file: 'src/sources/http/rate-limiter.ts',
        find: '    let open = true\n    return () => {',
        replace: '    let open = false\n    this.#answer(priority)\n    return () => {',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/http/rate-limiter.test.ts',
        title: 'a permit comes back a minute after its answer came, not after it was sent',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'live reading takes the minimum of jobs and lookback',
    invariant: '5: never more than the limit in any rolling minute as the server counts it',
    edits: [
      {
        file: 'src/sources/http/rate-limiter.ts',
        find: 'const used = this.#used + this.#reservedBefore(priority)',
        replace: "const used = this.#used + (priority === 'live' ? 0 : this.#reservedBefore(priority))",
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/http/guaranteed.test.ts',
        title: 'with a limit below three times two, live reading, lookback and jobs take turns',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'lookback never runs',
    invariant: '6: late entries are found',
    edits: [
      {
        file: 'src/sources/audit/lookback.ts',
        find: 'if (options.lookbackMs === 0 || ',
        replace: 'if (options.lookbackMs >= 0 || ',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/audit/lookback.test.ts',
        title: 'lookback finds an entry hours late, and counts it as late',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a page is skipped although all pages fail',
    invariant: '6: only good pages elsewhere prove that one page fails',
    edits: [
      {
        file: 'src/sources/audit/page.ts',
        find: '    if (!(await isReadElsewhere(step, request, left ? 1 : take))) {\n',
        replace:
          '    if (!(await isReadElsewhere(step, request, left ? 1 : take)) && left === undefined) {\n',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/audit/outage.test.ts',
        title: '`run --once` is not done while pages answer "[null]", and says why',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: '`run --once` makes no lookback',
    invariant: '6: a job each hour finds what the daemon finds',
    edits: [
      {
        file: 'src/sources/audit/audit.ts',
        find: "    return { dueAt, priority: 'lookback', caughtUp: dueAt === Infinity }\n",
        replace: "    return { dueAt, priority: 'lookback', caughtUp: dueAt >= 0 }\n",
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/audit/once.test.ts',
        title: 'an entry that becomes visible 18000000 ms late is found by hourly runs, as by the daemon',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a poll begins at the newest entry, without overlap',
    invariant: '6: a short overlap at every poll',
    edits: [
      {
        file: 'src/sources/audit/cursor.ts',
        find: '  return overlap.findLast(({ at }) => at <= headUs - overlapUs) ?? overlap[0] ?? head\n',
        replace: '  return overlapUs + headUs < 0 ? (overlap[0] ?? head) : head\n',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/audit/head.test.ts',
        title:
          'an entry that becomes visible a minute late is found by the next poll without an extra request',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a time without a zone is read as local',
    invariant: '8: zone-less stamps are UTC',
    edits: [
      {
        file: 'src/core/time.ts',
        find: '  if (at === end) return 0\n',
        replace: '  if (at === end) return -new Date().getTimezoneOffset() * 60_000_000\n',
      },
    ],
    tests: [
      {
        file: 'test/unit/core/time-zone.test.ts',
        title: 'a time without a zone is UTC in every time zone of the machine',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'commits are synced at checkpoints only: NORMAL for FULL',
    invariant: '10: synchronous FULL at every open',
    edits: [
      {
        file: 'src/journal/sqlite/database.ts',
        find: "db.pragma('synchronous = FULL')",
        replace: "db.pragma('synchronous = NORMAL')",
      },
      { file: 'src/journal/sqlite/database.ts', find: 'const FULL = 2\n', replace: 'const FULL = 1\n' },
    ],
    tests: [
      {
        file: 'test/unit/journal/sqlite/file.test.ts',
        title:
          'every open is WAL, exclusive and FULL, also after writes: the driver alone falls back to NORMAL',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'the journal’s file is not locked',
    invariant: '10: a second process is refused',
    edits: [
      {
        file: 'src/journal/sqlite/database.ts',
        find: "db.pragma('locking_mode = EXCLUSIVE')",
        replace: "db.pragma('locking_mode = NORMAL')",
      },
      { file: 'src/journal/sqlite/database.ts', find: "locking !== 'exclusive'", replace: "locking === ''" },
    ],
    tests: [
      {
        file: 'test/unit/journal/sqlite/file.test.ts',
        title: 'a second process is refused, before and after a second open in this process',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'SQLite deletes a log without its journal',
    invariant: '10: a corrupt store stops the process and is never deleted',
    edits: [
      {
        file: 'src/journal/sqlite/files.ts',
        find: 'if (bytes === undefined || bytes === 0) {',
        replace: 'if (bytes === -1) {',
      },
    ],
    tests: [
      {
        file: 'test/unit/journal/sqlite/file.test.ts',
        title: 'a log without a journal is left as it is, and no journal opens',
      },
    ],
    says: /AssertionError|ENOENT/,
  },
  {
    name: 'checking a damaged journal writes its log into it',
    invariant: '10: a corrupt store stops the process and is never deleted',
    edits: [
      {
        file: 'src/journal/sqlite/database.ts',
        find: '&& checkWithLog(path))',
        replace: '&& nowAt < 0 && checkWithLog(path))',
      },
    ],
    tests: [
      {
        file: 'test/unit/journal/sqlite/file.test.ts',
        title: 'a log beside a damaged journal is left as it is, and no journal opens',
      },
    ],
    says: /AssertionError|ENOENT/,
  },
  {
    name: 'a chunk’s checksum is not compared',
    invariant: '10: a checksum for each chunk',
    edits: [
      {
        file: 'src/journal/sqlite/chunk-store.ts',
        find: 'address), row) === row.crc',
        replace: 'address), row) !== row.crc + 0.5',
      },
    ],
    tests: [
      {
        file: 'test/unit/journal/sqlite/file.test.ts',
        title: 'a damaged payload is not delivered: the error names its chunk',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'dedup keys are times alone',
    invariant: '10: the key is source, time and id',
    edits: [
      {
        file: 'src/journal/rules/dedup.ts',
        find: '  if (\n    end - start === 36 &&',
        replace:
          '  out.fill(0, at, at + KEY_BYTES)\n  if (end >= start) return\n  if (\n    end - start === 36 &&',
      },
    ],
    tests: [
      {
        file: 'test/contract/journal.test.ts',
        title: 'ids compare exactly: case, length and ids that are no UUID matter',
      },
      someSeeds,
    ],
    says: /AssertionError|is missing/,
  },
  {
    name: 'a known secret is not masked in the log',
    invariant: '11: secrets never reach a log',
    edits: [
      {
        file: 'src/observability/log.ts',
        find: 'if (value.length >= MIN_SECRET) masked',
        replace: 'if (value.length < MIN_SECRET) masked',
      },
    ],
    tests: [
      {
        file: 'test/unit/observability/log.test.ts',
        title: 'a known secret is masked within any string, also where the cut would go through it',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a connection is used again after a bad answer',
    invariant: '5: a failed request is retried where it may succeed',
    edits: [
      {
        file: 'src/platform/connections.ts',
        find: '    if (isBad) this.renew(socket)\n',
        replace: '',
      },
    ],
    tests: [
      {
        file: 'test/unit/platform/transport.test.ts',
        title: 'the request behind a 503 takes a new connection',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a compression’s name is looked up in an object literal',
    invariant: '4: bounded, whatever the API sends',
    edits: [
      {
        file: 'src/sources/http/reply.ts',
        find: '  const open = decoders.get(encoding)\n',
        replace:
          '  const open = (Object.fromEntries(decoders) as Record<string, () => ReturnType<typeof createGunzip>>)[encoding]\n',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/http/client.test.ts',
        title: 'an unknown compression is a bad reply, and its connection is closed: constructor',
      },
    ],
    says: /AssertionError|Error/,
  },
  {
    name: 'small pieces of an answer are kept one by one',
    invariant: '4: memory is bounded, whatever the API sends',
    edits: [
      {
        file: 'src/core/bytes.ts',
        find: '    if (piece.length >= SMALL_BYTES) {\n',
        replace: '    if (piece.length > 0) {\n',
      },
    ],
    tests: [
      {
        file: 'test/unit/core/pieces.test.ts',
        title: 'single bytes are held in few buffers, large pieces as they came',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'an error message quotes the API key',
    invariant: '11: secrets never reach an error message',
    edits: [
      {
        file: 'src/sources/http/client.ts',
        find: '    const where = `${named(ask)} answered ${status}`\n',
        replace:
          '    const where = `${named(ask)} with ${this.#options.apiKey.reveal()} answered ${status}`\n',
      },
    ],
    tests: [someSeeds],
    says: /the log tells the secret/,
  },
  {
    name: 'the file sink acknowledges before its bytes are on the disk',
    invariant: 'file: on the disk before a line counts as accepted',
    edits: [
      {
        file: 'src/sinks/file/steps.ts',
        find: '    await file.write(bytes, offset)\n    await file.sync()\n',
        replace: '    await file.write(bytes, offset)\n',
      },
    ],
    tests: [
      { file: 'test/unit/sinks/file/sink.test.ts', title: 'a delivered batch survives a power cut at once' },
      someSeeds,
    ],
    says: /AssertionError|archive: .*is missing|not valid JSON|string literal in JSON/,
  },
  {
    name: 'after a crash the file sink continues after a torn line',
    invariant: 'file: a torn line is cut, no line twice',
    edits: [
      {
        file: 'src/sinks/file/sink.ts',
        find: '    const { file, offset, found } = await this.#findAgain(detail, bytes)\n',
        replace:
          '    const file = await this.#open()\n    const offset = await file.size()\n    const found = undefined\n',
      },
      {
        file: 'src/sinks/file/sink.ts',
        find: '      await this.#cutAfterEqual(file, offset, bytes)\n',
        replace: '',
      },
    ],
    tests: [
      {
        file: 'test/unit/sinks/file/sink.test.ts',
        title: 'after any number of kills and power cuts, at any byte: no line twice, none missing, in order',
      },
    ],
    says: /AssertionError|Property failed/,
  },
  {
    name: 'the file sink leaves what follows a batch’s equal part',
    invariant: 'file: the equal prefix counts, the rest is cut',
    edits: [
      {
        file: 'src/sinks/file/sink.ts',
        find: '    if (equal < bytes.length) await file.truncate(offset + equal)\n',
        replace: '    if (equal > bytes.length) await file.truncate(offset + equal)\n',
      },
    ],
    tests: [
      {
        file: 'test/unit/sinks/file/sink.test.ts',
        title: 'bytes of other settings behind the offset are replaced',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'HEC: code 6 with N counts as all accepted',
    invariant: 'splunk_hec: on code 6 the prefix is committed, nothing after it',
    edits: [
      {
        file: 'src/sinks/splunk-hec/reply.ts',
        find: "  return done(reply, { acknowledged: index + 1, rejected: [{ index, code: 'refused', reason }] })",
        replace:
          "  return done(reply, { acknowledged: sent.count, rejected: [{ index, code: 'refused', reason }] })",
      },
    ],
    tests: [
      {
        file: 'test/unit/sinks/splunk-hec/sink.test.ts',
        title: 'code 6 with N takes 0..N-1, refuses N, and leaves the rest pending',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'HEC: code 6 makes the whole batch dead letters',
    invariant: 'splunk_hec: only the named event is rejected',
    edits: [
      {
        file: 'src/sinks/splunk-hec/reply.ts',
        find: "  return done(reply, { acknowledged: index + 1, rejected: [{ index, code: 'refused', reason }] })",
        replace:
          "  return done(reply, { acknowledged: sent.count, rejected: Array.from({ length: sent.count }, (_, at) => ({ index: at, code: 'refused', reason })) })",
      },
    ],
    tests: [
      {
        file: 'test/unit/sinks/splunk-hec/sink.test.ts',
        title: 'code 6 with N takes 0..N-1, refuses N, and leaves the rest pending',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'HEC: a sign-in page with 200 counts as success',
    invariant: 'splunk_hec: only Splunk’s own answer acknowledges a batch',
    edits: [
      {
        file: 'src/sinks/splunk-hec/reply.ts',
        find: '  if (!hec || (status >= 300',
        replace:
          '  if (ok && !hec) return done(reply, { acknowledged: sent.count, rejected: [] })\n  if (!hec || (status >= 300',
      },
    ],
    tests: [someSeeds],
    says: /splunk: .*is missing/,
  },
  {
    name: 'HEC: an accepted batch counts without its acknowledgement',
    invariant: 'splunk_hec: with acknowledgements a batch is pending until the indexers have it',
    edits: [
      {
        file: 'src/sinks/splunk-hec/acks.ts',
        find: '    if (ackId !== undefined && mode !== false && ',
        replace: '    if (ackId === -1 && mode !== false && ',
      },
    ],
    tests: [
      {
        file: 'test/unit/sinks/splunk-hec/acks.test.ts',
        title: 'a batch is pending until the indexers have it, and the next goes out meanwhile',
      },
      someSeeds,
    ],
    says: /AssertionError|settled before they were safe/,
  },
  {
    name: 'HEC: waiting batches share a channel',
    invariant: 'splunk_hec: an id means one batch, whatever restarts',
    edits: [
      {
        file: 'src/sinks/splunk-hec/client.ts',
        find: 'return this.#free.pop() ?? guid(this.#random)',
        replace: 'return (this.#free[0] ??= guid(this.#random))',
      },
    ],
    tests: [
      {
        file: 'test/unit/sinks/splunk-hec/acks.test.ts',
        title: 'an indexer that restarts its count confirms nothing that it lost, even after a kill',
      },
    ],
    says: /AssertionError|settled before they were safe/,
  },
  {
    name: 'HEC: a channel with an unanswered batch is used again',
    invariant: 'splunk_hec: an id means one batch, whatever restarts',
    edits: [
      {
        file: 'src/sinks/splunk-hec/sink.ts',
        find: '      if (!maybeSent(verdict.error)) collector',
        replace: '      if (!maybeSent(verdict.error) || collector) collector',
      },
    ],
    tests: [
      {
        file: 'test/unit/sinks/splunk-hec/acks.test.ts',
        title: 'a channel on which a batch without an answer may still wait confirms no other batch',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'HEC: an acknowledgement is awaited for ever',
    invariant: 'splunk_hec: an unacknowledged batch is sent again after ack_timeout',
    edits: [
      {
        file: 'src/sinks/splunk-hec/acks.ts',
        find: '    if (clock.elapsed() < until) continue\n',
        replace: '    if (clock.elapsed() < until + Infinity) continue\n',
      },
    ],
    tests: [
      {
        file: 'test/unit/sinks/splunk-hec/acks.test.ts',
        title:
          'a batch that an indexer lost before it was safe goes out again after ack_timeout, under a new channel',
      },
      someSeeds,
    ],
    says: /AssertionError|still owed|is missing/,
  },
  {
    name: 'HEC: `false` counts as failed',
    invariant: 'splunk_hec: `false` only means not yet, or answered before',
    edits: [
      {
        file: 'src/sinks/splunk-hec/acks.ts',
        find: '    if (clock.elapsed() < until) continue\n',
        replace: "    if (why !== 'the indexer has not confirmed it' && clock.elapsed() < until) continue\n",
      },
    ],
    tests: [
      {
        file: 'test/unit/sinks/splunk-hec/acks.test.ts',
        title: 'after a restart the old channel is asked, and nothing is sent again',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'the in-flight record lacks what the acknowledgement needs',
    invariant: '2: after a crash a pending acknowledgement is queried',
    edits: [
      {
        file: 'src/delivery/acknowledgements.ts',
        find: '    await journal.recordInFlight(sink.name, taken.inFlight)\n',
        replace: '',
      },
    ],
    tests: [
      {
        file: 'test/unit/delivery/acknowledgements.test.ts',
        title: 'after a crash the sink asks about what the receiver took and sends nothing again',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'objects are made without their sink’s content policy',
    invariant: '11: a sink never gets what its policy denies',
    edits: [
      {
        file: 'src/delivery/objects.ts',
        find: 'this.#framing = framingOf(options)',
        replace: 'this.#framing = options',
      },
    ],
    tests: [
      {
        file: 'test/unit/delivery/objects.test.ts',
        title:
          'no object has a field that its sink may not see, also after a crash; with the field it would be another object',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a resend ignores what a sink’s policy denies',
    invariant: '11: a sink never gets what its policy denies',
    edits: [
      {
        file: 'src/delivery/policy.ts',
        find: 'wanted(slice, index) && !denied(slice, index)',
        replace: 'wanted(slice, index) && (slice.onlySink !== undefined || !denied(slice, index))',
      },
    ],
    tests: [
      {
        file: 'test/unit/delivery/policy.test.ts',
        title: 'follows the current policy; if that denies it, it is not sent',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a field name written with escapes is not redacted',
    invariant: '11: a sink never gets what its policy denies',
    edits: [
      {
        file: 'src/core/json.ts',
        find: 'if (raw[at] === BACKSLASH) return names.indexOf(stringAt(raw, start, end))',
        replace: 'if (raw[at] === BACKSLASH) return -1',
      },
    ],
    tests: [
      {
        file: 'test/unit/delivery/redact.test.ts',
        title:
          'is rewritten as a slow rewriting of its text does it: duplicates, escapes and white space included',
      },
    ],
    says: /AssertionError|Property failed/,
  },
  {
    name: 'a canary is sent before it is recorded',
    invariant: '5: one prompt an interval, across restarts too',
    edits: [
      {
        file: 'src/canary/canary.ts',
        find: '    await this.#store.save(memory)\n    const from = clock.elapsed()\n',
        replace: '    const from = clock.elapsed()\n',
      },
    ],
    tests: [
      {
        file: 'test/unit/canary/canary.test.ts',
        title: 'a crash in mid-request costs no second prompt within the interval, and no alarm',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a replay stores what it reads before its own cursor',
    invariant: '1: entries and cursor are stored together or not at all',
    edits: [
      {
        file: 'src/journal/sqlite/replay.ts',
        find: '    const put = putChunks(core, pending.lastSeq, address, packed)\n    core.state.write(again.state)\n    return put\n',
        replace: '    return putChunks(core, pending.lastSeq, address, packed)\n',
      },
    ],
    tests: [
      {
        file: 'test/unit/jobs/replays.test.ts',
        title: 'a replay continues after a restart where it was, without duplicates',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a replay forgets what it has sent of the current page',
    invariant: '1: nothing is sent twice without need',
    edits: [
      {
        file: 'src/jobs/sent-pages.ts',
        find: '    if (!isNew(mark)) continue\n',
        replace: '',
      },
    ],
    tests: [
      {
        file: 'test/unit/jobs/replays.test.ts',
        title: 'after a crash 2 page chunks into a page, the page is read again without duplicates',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a replay forgets what it has sent of a cut answer',
    invariant: '1: nothing is sent twice without need',
    edits: [
      {
        file: 'src/ingest/loop.ts',
        find: '...((part.void ?? part.fault) && {',
        replace: '...(part.void && {',
      },
    ],
    tests: [
      {
        file: 'test/unit/jobs/replays.test.ts',
        title:
          'a page whose answer breaks off after some page chunks were sent is read again without duplicates',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a replay goes out to every sink',
    invariant: '2: a replay is for one sink alone',
    edits: [
      {
        file: 'src/journal/sqlite/replay.ts',
        find: 'const address = { source, appendedAt: runAt, onlySink: sink, replay: true }\n    const put',
        replace:
          'const address = { source, appendedAt: runAt, onlySink: undefined, replay: true }\n    const put',
      },
    ],
    tests: [
      {
        file: 'test/contract/journal.test.ts',
        title: 'appends known entries too: marked, for its sink only',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a day that the journal has in part counts as complete',
    invariant: '3: nothing is dropped',
    edits: [
      {
        file: 'src/cli/replay/plan.ts',
        find: '=> day.stored >= day.kept',
        replace: '=> day.stored > 0',
      },
    ],
    tests: [
      {
        file: 'test/unit/cli/replay/api.test.ts',
        title: "the journal's part of such a day is not sent",
      },
    ],
    says: /AssertionError/,
  },
]
