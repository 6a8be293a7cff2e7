// The errors of a full disk: first the fact, then what to do, short enough for the status page.
import type { Database } from 'better-sqlite3'
import { expect, it } from 'vitest'
import { atStart, Ballast, diskFull, Space } from '../../../../src/journal/sqlite/space.ts'
import type { Core } from '../../../../src/journal/sqlite/core.ts'
import { translate } from '../../../../src/journal/sqlite/database.ts'
import { explaining } from '../../../../src/journal/sqlite/append.ts'
import { messageOf } from '../../../../src/observability/words.ts'

const path = `/var/lib/auditferry/${'volume-of-the-journal/'.repeat(4)}auditferry.db`
const LARGE = 100 * 2 ** 30
const bounds = { maxBytes: 2 ** 31, keepDeliveredBytes: 2 ** 28 }
const thrown = (code: string) => Object.assign(new Error('as told'), { code })

function spaceOf(largestFileBytes: number, volumeBytes: number, ownBytes = LARGE): Space {
  const pragma = (name: string) => ({ page_size: 8192, page_count: ownBytes / 8192 })[name] ?? 0
  const ballast = new Ballast(path, LARGE, () => LARGE)
  return new Space({
    ...{ path, ballast, largestFileBytes, volumeBytes: () => volumeBytes, bounds },
    db: { pragma } as unknown as Database,
  })
}

function filledWith(quarantined: number, deadLetterBytes: number, isSystems: boolean): unknown {
  const core = {
    path,
    pending: { deadLetterBytes },
    quarantine: { stored: { bytes: quarantined } },
    transactions: { fileBytes: { bound: 2 * LARGE, left: 0, isSystems } },
  } as unknown as Core
  try {
    return explaining(core, 1, () => {
      throw translate(thrown('SQLITE_FULL'), path) as Error
    })
  } catch (error) {
    return error
  }
}

const opening: Record<string, unknown> = {
  'a full disk': translate(thrown('ENOSPC'), path),
  'a quota': translate(thrown('SQLITE_IOERR_WRITE'), path, () => thrown('EDQUOT')),
  'a limit': translate(thrown('SQLITE_IOERR_WRITE'), path, () => thrown('EFBIG')),
}
const running: Record<string, unknown> = {
  ...opening,
  'too little for more': diskFull(path, spaceOf(Infinity, 100 * LARGE).lack),
  'a file that fills its volume': diskFull(path, spaceOf(Infinity, LARGE).lack),
  'a volume too small for a journal': diskFull(path, spaceOf(Infinity, 2 ** 26, 8192).lack),
  'a limit below the ballast': diskFull(path, spaceOf(LARGE, 100 * LARGE).lack),
  'quarantined elements': filledWith(LARGE, 0, true),
  'dead letters': filledWith(0, LARGE, true),
  'quarantined elements and dead letters': filledWith(LARGE, LARGE, false),
  'the bound of the system': filledWith(0, 0, true),
  'the bound of the file': filledWith(0, 0, false),
}
const starting = Object.entries(opening).map(
  ([what, error]) =>
    [`${what}, at a start`, atStart(error, () => '1 MiB are free, the journal needs 96 MiB')] as const,
)
const variants = [...Object.entries(running), ...starting]

it.each(variants)(
  '%s: the error starts with the fact, then says what to do, and fits the status page',
  (_, error) => {
    expect(error).toMatchObject({ code: 'disk_full' })
    const { message } = error as Error
    expect(message).toMatch(/^[^:]+: (make room|raise the limit|export and drop)/)
    expect(message.replace(path, '').length).toBeLessThan(360)
    expect(message).toContain(path)
    expect(message).not.toMatch(/\d{7}/)
    expect(messageOf(error as never)).toBe(message)
  },
)

it.each(variants)(
  '%s: the error says either that work resumes automatically or that a start is needed',
  (_, error) => {
    const { message } = error as Error
    expect([...message.matchAll(/resumes automatically|start again/g)]).toHaveLength(1)
    const needsStart = /start/.test(_) || /: raise the limit/.test(message)
    expect(message).toContain(needsStart ? 'start again' : 'resumes automatically')
  },
)

it('the error of a full disk names the free and the needed room', () => {
  const ballast = new Ballast(path, 48 * 2 ** 20, () => 44 * 2 ** 20)
  const db = { pragma: () => 1 } as unknown as Database
  const space = new Space({ path, ballast, largestFileBytes: Infinity, volumeBytes: () => LARGE, bounds, db })
  expect(diskFull(path, space.lack).message).toBe(
    `44 MiB are free, the journal needs 96 MiB: make room, and reading resumes automatically. Delivery continues. The journal is ${path}`,
  )
})

it.each([
  ['filled by the file', LARGE, LARGE],
  ['smaller than log and ballast', 2 ** 26, 8192],
])('the error for a volume %s names what the configured limits need', (_, volume, own) => {
  const { message } = diskFull(path, spaceOf(Infinity, volume, own).lack)
  expect(message).toContain('they take 2432 MiB plus keys')
})
