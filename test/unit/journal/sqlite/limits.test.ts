// Invariant 10 under a quota and under a file size limit. SQLite has
// no error code for either; the journal treats both as a full disk.
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { JournalOptions } from '../../../../src/journal/sqlite/open.ts'
import { limitReachedAt } from '../../../../src/journal/sqlite/space.ts'
import type { Journal } from '../../../../src/contracts/journal.ts'
import {
  idsOf,
  part,
  plenty,
  acknowledgement,
  spec,
  TestClock,
  uuid,
} from '../../../contract/journal-parts.ts'
import type { Met } from './limited.ts'
import { big, journalSetup } from './setup.ts'

let folder: string
let path: string
let opened: Journal[]
let sentences: string[]
const open = journalSetup((setup) => ({ folder, path, opened, sentences } = setup), 'journal.db', {
  keepDeliveredBytes: 0,
  ballastBytes: 10_000,
})

const usedUp = Object.assign(new Error('as told'), { code: 'EDQUOT' })

/** A clock that makes SQLite writes fail while `code` is set. */
class FailingClock extends TestClock {
  code: string | undefined
  override now = () => {
    if (this.code !== undefined) throw Object.assign(new Error('disk I/O error'), { code: this.code })
    return this.nowMs
  }
}

describe('a write that SQLite could not make', () => {
  it('under a used-up quota pauses reading and removes the ballast, until there is room', async () => {
    const clock = new FailingClock()
    const asked: string[] = []
    const journal = await open({ clock, limitReached: (at) => asked.push(at) > 0 && usedUp })
    await journal.append(part([spec(1)]))
    clock.code = 'SQLITE_IOERR_WRITE'
    await expect(journal.append(part([spec(2)]))).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.stringContaining('quota') as string,
    })
    expect(asked).toEqual([path])
    expect(existsSync(`${path}.ballast`)).toBe(false)
    clock.code = undefined
    expect(idsOf(await journal.take('a', plenty))).toEqual([uuid(1)])
    await journal.ack('a', acknowledgement(1, 1))
    expect(await journal.append(part([spec(2)]))).toMatchObject({ added: 1 })
    expect(statSync(`${path}.ballast`).size).toBe(10_000)
  })

  it.each([
    ['cannot write', 'SQLITE_IOERR_WRITE'],
    ['cannot make its log', 'SQLITE_CANTOPEN'],
  ])('also removes the ballast if a start %s because of the quota', async (_, code) => {
    await (await open()).close()
    let tries = 0
    const fileSystemType = () => {
      if (tries++ === 0) throw Object.assign(new Error('as told'), { code })
      expect(existsSync(`${path}.ballast`)).toBe(false)
      return 0
    }
    await open({ fileSystemType, limitReached: () => usedUp })
    expect(tries).toBe(2)
  })

  it.each(['SQLITE_IOERR_WRITE', 'SQLITE_IOERR_FSYNC', 'EIO'])(
    'ends the process if the quota has room, or if it was no plain write: %s',
    async (code) => {
      const clock = new FailingClock()
      const journal = await open({
        clock,
        limitReached: () => (code === 'SQLITE_IOERR_WRITE' ? undefined : usedUp),
      })
      clock.code = code
      await expect(journal.append(part([spec(1)]))).rejects.toMatchObject({ code: 'disk_failed' })
      clock.code = undefined
      await expect(journal.append(part([spec(1)]))).rejects.toMatchObject({ code: 'disk_failed' })
    },
  )

  it('is checked with a probe file that leaves nothing behind and follows no link', () => {
    writeFileSync(path, '')
    expect(limitReachedAt(path)).toBeUndefined()
    expect(readdirSync(folder)).toEqual(['journal.db'])
    writeFileSync(join(folder, 'target'), 'theirs')
    symlinkSync('target', `${path}.probe`)
    expect(limitReachedAt(path)).toBeUndefined()
    expect(readFileSync(join(folder, 'target'), 'utf8')).toBe('theirs')
    expect(readdirSync(folder)).toEqual(['journal.db', 'target'])
  })
})

/** Runs the work on a volume whose quota is `megabytes`. */
const underQuota =
  (
    megabytes: number,
    work: (volume: string, limit: (to: string) => boolean, settled: () => boolean) => Promise<void>,
  ) =>
  async (context: { skip: (why: string) => void }) => {
    const [image, mount] = [join(folder, 'image'), join(folder, 'mount')]
    const volume = join(mount, 'volume')
    const limit = (to: string) => run('btrfs', 'qgroup', 'limit', to, volume)
    const run = (command: string, ...words: string[]) => spawnSync(command, words).status === 0
    mkdirSync(mount)
    writeFileSync(image, '')
    truncateSync(image, 512 * 1024 ** 2)
    const mounted = run('mkfs.btrfs', '-q', image) && run('mount', '-o', 'loop', image, mount)
    try {
      const quota = mounted && run('btrfs', 'quota', 'enable', mount)
      if (!quota || !run('btrfs', 'subvolume', 'create', volume) || !limit(`${megabytes}M`)) {
        console.warn('SKIPPED: a real quota needs btrfs-progs and the right to mount')
        context.skip('no quota to be had')
        return
      }
      // Btrfs counts removed files until its next commit.
      await work(volume, limit, () => run('btrfs', 'filesystem', 'sync', mount))
    } finally {
      for (const journal of opened.splice(0)) await journal.close()
      if (mounted) run('umount', '-l', mount)
    }
  }

/** Uses up the quota. */
function useUp(volume: string): void {
  expect(() => {
    for (;;) writeFileSync(join(volume, 'foreign'), randomBytes(65_536), { flag: 'a', flush: true })
  }).toThrow()
}

it(
  'under a real used-up quota reading pauses, delivery goes on, also after a restart, and a larger quota ends that',
  underQuota(12, async (volume, limit, settled) => {
    const settings = { path: join(volume, 'journal.db'), ballastBytes: 2 ** 20 }
    let journal = await open(settings)
    for (let n = 1; n <= 3; n++) await journal.append(big(n))
    useUp(volume)
    const fill = async () => {
      for (let n = 4; ; n++) await journal.append(big(n))
    }
    await expect(fill()).rejects.toMatchObject({ code: 'disk_full' })
    expect(existsSync(`${settings.path}.ballast`)).toBe(false)
    await expect(fill()).rejects.toMatchObject({ code: 'disk_full' })
    settled()
    await journal.ack('a', acknowledgement(1, 2))
    await journal.close()
    settled()
    journal = await open(settings)
    expect(idsOf(await journal.take('a', { maxEntries: 1, maxBytes: 1 }))).toEqual([uuid(3)])
    await journal.ack('a', acknowledgement(3, 3))
    await expect(fill()).rejects.toMatchObject({ code: 'disk_full' })
    // The ballast is not restored there, since it would be removed again at once.
    expect(sentences.filter((sentence) => sentence.includes('removed its reserve'))).toHaveLength(1)
    limit('100M')
    expect(await journal.append(big(50))).toMatchObject({ added: 1 })
    expect(existsSync(`${settings.path}.ballast`)).toBe(true)
  }),
  30_000,
)

it(
  'a close under a used-up quota leaves entries in the log, where the next start finds them',
  underQuota(8, async (volume, limit) => {
    const settings = { path: join(volume, 'journal.db'), ballastBytes: 0 }
    const journal = await open(settings)
    let kept = 0
    const fill = async () => {
      for (; ; kept++) await journal.append(big(kept + 1))
    }
    await expect(fill()).rejects.toMatchObject({ code: 'disk_full' })
    useUp(volume)
    await journal.close()
    expect(existsSync(`${settings.path}-wal`)).toBe(true)
    limit('100M')
    const again = await open(settings)
    expect(idsOf(await again.take('a', { maxEntries: 1e6, maxBytes: 1e9 }))).toHaveLength(kept)
  }),
  30_000,
)

describe.runIf(process.platform === 'linux')('under a file size limit', () => {
  const KIB = 1024
  /** Runs a process that may write files of this many KiB at most. */
  const under = (kib: number, settings: Partial<JournalOptions>) => {
    const program = new URL('./limited.ts', import.meta.url).pathname
    const words = [process.execPath, program, JSON.stringify({ path, ...settings })]
    const shell = `ulimit -f ${kib}; exec "$0" "$@"`
    const { stdout, stderr } = spawnSync('bash', ['-c', shell, ...words], { encoding: 'utf8' })
    expect(stderr).toBe('')
    return JSON.parse(stdout) as Met
  }

  it('reading pauses, delivery goes on and makes room, and the errors name the limit', () => {
    const met = under(24 * KIB - 3, { ballastBytes: 1_000_000 })
    expect(met.kept).toBeGreaterThan(10)
    expect(met.full).toMatch(
      /^disk_full: the file has reached 23 MiB.*: raise the limit .*\(ulimit -f, LimitFSIZE\)/,
    )
    expect(met).toMatchObject({ settled: 'done', again: 'done' })
    expect(met.sentences).toEqual([expect.stringContaining('ulimit -f')])
    expect(existsSync(`${path}.ballast`)).toBe(true)
  })

  it('the same holds if the limit was not known before, and the log is checkpointed', () => {
    const met = under(8192, { ballastBytes: 1_000_000, largestFileBytes: 1e12 })
    expect(met.full).toMatch(/^disk_full: .*may not become larger here.*: raise the limit .*start again/)
    expect(met).toMatchObject({ settled: 'done', again: 'done', sentences: [] })
    expect(existsSync(`${path}.ballast`)).toBe(true)
  })

  it('if neither the file nor its log may grow, everything waits, and a start with a higher limit has all entries', async () => {
    const { kept, position, settled, again } = under(24 * KIB, { ballastBytes: 0, largestFileBytes: 1e12 })
    expect(kept).toBeGreaterThan(50)
    for (const reported of [settled, again]) expect(reported).toMatch(/^disk_full/)
    const journal = await open()
    expect(idsOf(await journal.take('a', { maxEntries: 1e6, maxBytes: 1e9 }))).toHaveLength(kept - position)
    await journal.ack('a', acknowledgement(position + 1, kept))
  })

  it('if the ballast exceeds the limit, no append works and the error says why', () => {
    const { kept, full } = under(512, { ballastBytes: 1_000_000 })
    expect(kept).toBe(0)
    expect(full).toMatch(
      /^disk_full: .*0\.5 MiB here.*ballast takes up to 1\.9 MiB: raise the limit .*\(ulimit -f, LimitFSIZE\)/,
    )
  })
})
