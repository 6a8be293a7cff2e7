// Objects on their way, on a disk that fails, and what is left of them on it.
import { expect, test } from 'vitest'
import { Spool } from '../../../src/sinks/s3/spool.ts'
import { FakeDisk } from '../../fakes/disk.ts'

const FOLDER = '/var/spool/archive'

async function readAll(pieces: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  for await (const piece of pieces) parts.push(piece)
  return Buffer.concat(parts).toString()
}

test('an object that cannot be read back is one to write anew: reading it again might fail for ever', async () => {
  const disk = new FakeDisk()
  const spool = await Spool.open(disk, FOLDER, 0, 'none')
  await spool.write(Buffer.from('{"id":"a"}\n'))
  const { body, spoiled } = await spool.end()
  expect(await readAll(body.read())).toBe('{"id":"a"}\n')
  expect(spoiled()).toBe(false)
  disk.fail('read', 'unreachable')
  await expect(readAll(body.read())).rejects.toMatchObject({ code: 'unreachable' })
  expect(spoiled()).toBe(true)
  await spool.discard()
  expect([disk.paths(), disk.openFiles]).toEqual([[], 0])
})
