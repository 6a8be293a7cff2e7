// Spooled objects on a disk that fails, and what is left of them on it.
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { ConnectorError } from '../../../../src/core/errors.ts'
import { clearSpools, Spool } from '../../../../src/sinks/s3/spool.ts'
import { FakeDisk } from '../../../fakes/disk.ts'

const FOLDER = '/var/spool/archive'

async function readAll(pieces: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  for await (const piece of pieces) parts.push(piece)
  return Buffer.concat(parts).toString()
}

test('an object that cannot be read back is rewritten: reading it again might fail forever', async () => {
  const disk = new FakeDisk()
  const spool = await Spool.open(disk, FOLDER, 0, 'none')
  await spool.write(Buffer.from('{"id":"a"}\n'))
  const { body, isDamaged } = await spool.end()
  expect(await readAll(body.read())).toBe('{"id":"a"}\n')
  expect(isDamaged()).toBe(false)
  disk.fail('read', 'unreachable')
  await expect(readAll(body.read())).rejects.toMatchObject({ code: 'unreachable' })
  expect(isDamaged()).toBe(true)
  await spool.discard()
  expect([disk.paths(), disk.openFiles]).toEqual([[], 0])
})

test('files that a killed process left in any slot of any sink are removed, and no others', async () => {
  const disk = new FakeDisk()
  const mine = ['archive/object-0.part', 'archive/object-17.part', 'gone/object-3.part']
  const others = ['archive/object-1.part.bak', 'archive/object-.part', 'archive/notes', 'object-0.part']
  const deeper = 'archive/more/object-0.part'
  for (const name of [...mine, ...others, deeper]) disk.put(`/var/spool/${name}`, 'content')
  expect(await clearSpools(disk, '/var/spool')).toBe(mine.length)
  expect(disk.paths()).toEqual([...others, deeper].map((name) => `/var/spool/${name}`).sort())
  expect(await clearSpools(disk, '/var/none')).toBe(0)
})

test('a file under the name of an object is removed, not written to: it may be a link', async () => {
  const fake = new FakeDisk()
  const path = `${FOLDER}/object-0.part`
  fake.put(path, 'theirs')
  const before = await fake.look(path)
  const spool = await Spool.open(fake, FOLDER, 0, 'none')
  expect((await fake.look(path))?.identity).not.toBe(before?.identity)
  expect(fake.content(path)?.length).toBe(0)
  await spool.discard()
})

test.each(['gzip', 'zstd'] as const)(
  'a disk that fills up while %s packs ends the writing, and nothing waits forever',
  async (compression) => {
    const disk = new FakeDisk({ capacityBytes: 100_000 })
    const spool = await Spool.open(disk, FOLDER, 0, compression)
    const write = async () => {
      // Does not pack.
      for (let i = 0; i < 50; i++) await spool.write(randomBytes(64 * 1024))
      await spool.end()
    }
    await expect(write()).rejects.toMatchObject({ code: 'disk_full' })
    await spool.discard()
    expect([disk.paths(), disk.openFiles]).toEqual([[], 0])
  },
)

test.each([
  ['misconfigured', 1],
  ['unreachable', 'unreachable'],
] as const)(
  'a folder beside ours that cannot be read is ignored if that is forbidden (%s), and an error otherwise',
  async (code, expected) => {
    const disk = new FakeDisk()
    for (const name of ['archive/object-0.part', 'theirs/object-0.part'])
      disk.put(`/var/spool/${name}`, 'content')
    const list = disk.list.bind(disk)
    disk.list = async (folder) => {
      if (folder.endsWith('/theirs')) throw new ConnectorError(code, 'as told')
      return list(folder)
    }
    const codeOf = (error: ConnectorError) => error.code
    expect(await clearSpools(disk, '/var/spool').catch(codeOf)).toBe(expected)
    expect(disk.paths()).toEqual(['/var/spool/theirs/object-0.part'])
  },
)
