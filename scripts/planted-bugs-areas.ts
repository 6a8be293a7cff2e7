// The planted bugs of the history and the vault, as data: see planted-bugs-list.ts.
import type { PlantedBug } from './planted-bugs-list.ts'

const late = 'the last days are read again, the youngest most often, and late events are counted as late'
const version = 'the same id with other content is a new version, and reaches the formats as one'

const onGoodLine =
  'on a good line a second failure in a row narrows, on an unknown one the sixth, and on a flaky one the tenth'
const brokenOff =
  'an answer that ends in an error beside its events is requested again, and the missing rest is read'

export const areaBugs: readonly PlantedBug[] = [
  {
    name: 'a history window counts as read after its first chunk',
    invariant: '8: a window is done in its last chunk only',
    edits: [
      {
        file: 'src/sources/history/window.ts',
        find: 'yield partOf({ ...ready, headUs })',
        replace: `for (const walk of [cursor.live, cursor.lookback, ...cursor.todo])
          if (walk?.at === window.from) walk.at = window.to
        yield lastChunk(step, { ...ready, headUs })`,
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/history/crash.test.ts',
        title: 'a process that dies between any two chunks of an answer continues as if it had not',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'the history has no lookback',
    invariant: '8: history has no cursor: the last days are read again',
    edits: [
      {
        file: 'src/sources/history/due.ts',
        find: "when('lookback', lookback ? now : (nextReread(options, cursor, now)?.dueAt ?? Infinity))",
        replace: "when('lookback', lookback && nextReread(options, cursor, now) ? now : Infinity)",
      },
    ],
    tests: [{ file: 'test/unit/sources/history/history.test.ts', title: late }],
    says: /AssertionError/,
  },
  {
    name: 'two failures in a row narrow the history window on a flaky line',
    invariant: '8: a flaky line costs what its failures explain',
    edits: [
      {
        file: 'src/sources/history/width.ts',
        find: 'if (isChance(width, failures)) return false',
        replace: 'if (failures < 2) return false',
      },
    ],
    tests: [{ file: 'test/unit/sources/history/width.test.ts', title: onGoodLine }],
    says: /AssertionError/,
  },
  {
    name: 'an error in place of an event is quarantined at once',
    invariant: '8: a window is skipped only while the API answers others',
    edits: [
      {
        file: 'src/sources/history/window.ts',
        find: 'if (!isNoEvent(element, cut) || sightings.isMalformed(window, element)) return true',
        replace: 'if (!isNoEvent(element, cut) || !sightings.isMalformed(window, element)) return true',
      },
    ],
    tests: [{ file: 'test/unit/sources/history/error-bodies.test.ts', title: brokenOff }],
    says: /AssertionError/,
  },
  {
    name: '`run --once` leaves out the history’s lookback',
    invariant: 'run --once: every lookback that is due since the last run',
    edits: [
      {
        file: 'src/sources/history/due.ts',
        find: 'if (lookback || (nextReread(options, cursor, now)?.dueAt ?? Infinity) <= now)',
        replace: 'if (lookback)',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/history/once.test.ts',
        title: 'an hourly job finds the late and the changed events that the daemon finds',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a pause within a day delays its lookback',
    invariant: '8: history has no cursor: the last days are read again',
    edits: [
      {
        file: 'src/sources/history/due.ts',
        find: 'const { from, to, spentMs = 0 } = rangeRead',
        replace: 'const { from, to } = rangeRead, spentMs = now - rangeRead.begunAt',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/history/history.test.ts',
        title: 'a pause while a day was read for the first time does not delay that it is read again',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'rows of version 1 are identified by their bytes alone',
    invariant: '8: v1 rows: hash of the bytes and ordinal among equals',
    edits: [
      {
        file: 'src/sources/history/version.ts',
        find: '-${ordinal}`',
        replace: '-${Math.min(ordinal, 1)}`',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/history/versions.test.ts',
        title: 'rows of v1 are delivered byte for byte, with their hash and their ordinal as id',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a day with ordinals is read with a second more on both sides',
    invariant: '8: rows without a timestamp are read in windows of exactly one UTC day',
    edits: [
      {
        file: 'src/sources/history/window.ts',
        find: 'const margin = window.isDay ? 0 : 1',
        replace: 'const margin = 1',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/history/versions.test.ts',
        title:
          'rows without a readable time are dated with their day, and never delivered from an empty window',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'an event with changed content counts as known',
    invariant: 'history: an id with other content is shipped as a new version',
    edits: [
      {
        file: 'src/journal/rules/dedup.ts',
        find: 'if (before.subarray(0, KEY_BYTES).equals(contentHash)) return 0',
        replace: 'if (before.length > 0 && contentHash.length > 0) return 0',
      },
    ],
    tests: [{ file: 'test/unit/sources/history/history.test.ts', title: version }],
    says: /AssertionError/,
  },
  {
    name: 'rows without a time do not count for the unit',
    invariant: '8: the unit of start_time is found, whatever the rows contain',
    edits: [
      {
        file: 'src/sources/history/unit.ts',
        find: "naming && naming.omitted > 0 ? 'rows' : 'nothing'",
        replace: "naming && naming.omitted > 1e9 ? 'rows' : 'nothing'",
      },
    ],
    tests: [
      { file: 'test/unit/sources/history/faults.test.ts', title: 'rows without a time prove the unit too' },
      { seeds: 2, from: 64 },
    ],
    says: /AssertionError|were served and 0 are there/,
  },
  {
    name: 'query text is sent to every sink without a setting',
    invariant: '11: query text is off unless asked for, per workspace and again per sink',
    edits: [
      {
        file: 'src/config/sink.ts',
        find: "    .default(['audit', 'history.usage', 'vault.projects'])",
        replace: "    .default(['audit', 'history.usage', 'history.query', 'vault.projects'])",
      },
    ],
    tests: [
      {
        file: 'test/unit/app/content.test.ts',
        title: 'query events reach only the sinks that name history.query, and only as they may see them',
      },
      { seeds: 1, from: 12 },
    ],
    says: /AssertionError|lines of history.query, which it did not ask for/,
  },
  {
    name: 'a project is reported as deleted when one pass misses it',
    invariant: 'vault: two complete passes agree before a deletion is reported',
    edits: [
      {
        file: 'src/sources/vault/pass.ts',
        find: 'const longer = missing.filter(({ seen }) => seen < last.n)',
        replace: 'const longer = missing',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/vault/vault.test.ts',
        title: 'a project that is gone is reported when two passes agree, the second a minute later',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a project missing in two passes is reported as deleted although others moved',
    invariant: 'vault: a list that shifts between pages yields no false deletion',
    edits: [
      {
        file: 'src/sources/vault/pass.ts',
        find: "const gone = unproven === 'none' ? longer : []",
        replace: 'const gone = longer',
      },
    ],
    tests: [
      {
        file: 'test/unit/sources/vault/vault.test.ts',
        title:
          'a project that deletions hide from two passes in a row, with plausible totals, is not reported as deleted',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a cut answer of the history counts in a reconcile',
    invariant: '8: a window is done in its last chunk only',
    edits: [
      {
        file: 'src/jobs/compare.ts',
        find: 'if (fault || chunk.void) {',
        replace: 'if (chunk.void === "walk") {',
      },
    ],
    tests: [
      {
        file: 'test/unit/jobs/history-past.test.ts',
        title: 'events of an interrupted answer are counted once, however often it is requested',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a backfill forgets the version it read a day as',
    invariant: '8: no day of the history is shipped as both versions',
    edits: [
      {
        file: 'src/sources/history/range.ts',
        find: "if (use === 'keep' && read !== known)",
        replace: "if (use !== 'keep' && read !== known)",
      },
    ],
    tests: [
      {
        file: 'test/unit/jobs/history-past.test.ts',
        title:
          'days read in one version are not read in the other, neither after a backfill nor after live reading',
      },
    ],
    says: /AssertionError|no end|waited in vain/,
  },
  {
    name: 'a content that was never stored counts as known',
    invariant: '10: a hash of the content beside the key shows a new version',
    edits: [
      {
        file: 'src/journal/sqlite/dedup-index.ts',
        find: 'taken[i] = versionOf(entries.raw(i), before).version === 0 ? 1 : 2',
        replace: 'taken[i] = 1',
      },
    ],
    tests: [
      {
        file: 'test/unit/jobs/history-past.test.ts',
        title: 'known events are not stored again; a changed event is a new version',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'a replay from the API stores its cursor before its entries',
    invariant: '1: entries and cursor are stored together or not at all',
    edits: [
      {
        file: 'src/jobs/jobs.ts',
        find: 'await journal.resend({ sink, stream, runAt, entries, state })',
        replace: `await journal.state.change(state)
      await journal.resend({ sink, stream, runAt, entries, state: { drop: [], put: [] } })`,
      },
    ],
    tests: [{ seeds: 1, from: 57 }],
    says: /the replay lacks \d+ of \d+ entries/,
  },
  {
    name: 'a backfill stores its cursor before its entries',
    invariant: '1: after a crash before the append the page is read again',
    edits: [
      {
        file: 'src/jobs/jobs.ts',
        find: '    const appended = await journal.append({ ...rest, cursor: undefined, state })',
        replace: `    if (place !== undefined) await this.#table.keep(job, { ...job.record, place }, new AbortController().signal)
    const appended = await journal.append({ ...rest, cursor: undefined, state })`,
      },
    ],
    tests: [{ seeds: 1, from: 140 }],
    says: /that a whole backfill must have read are missing/,
  },
  {
    name: 'bytes after the end of a compressed object are ignored',
    invariant: 's3: verify proves only what it compared',
    edits: [
      {
        file: 'src/sinks/s3/verify/objects.ts',
        find: 'seen.wholeUnpacked = through.bytesWritten === seen.storedBytes',
        replace: 'seen.wholeUnpacked = true',
      },
    ],
    tests: [
      {
        file: 'test/unit/sinks/s3/evidence-hostile.test.ts',
        title: 'are not proved with zeros behind their end',
      },
    ],
    says: /AssertionError/,
  },
  {
    name: 'no receiver is probed at the start',
    invariant: 's3: a sink that collects shows at once that its bucket is not there',
    edits: [
      {
        file: 'src/app/app.ts',
        find: 'beside.push(...sinkDeliveries.map((sinkDelivery) => probe(sinkDelivery, signal)))',
        replace:
          'beside.push(...sinkDeliveries.slice(0, 0).map((sinkDelivery) => probe(sinkDelivery, signal)))',
      },
    ],
    tests: [
      {
        file: 'test/unit/app/app.test.ts',
        title: 'a missing bucket blocks its sink while it collects',
      },
    ],
    says: /waited in vain for: blocked/,
  },
]
