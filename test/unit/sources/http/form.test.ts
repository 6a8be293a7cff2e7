// Fields and files as a form: a large file is never held.
import { expect, it } from 'vitest'
import { formOf } from '../../../../src/sources/http/form.ts'

it('a piece of a large file is read only when the one before is sent', async () => {
  const MIB = 2 ** 20
  let ahead = 0
  const open = async function* () {
    const piece = Buffer.alloc(MIB)
    for (let i = 0; i < 64; i++) {
      expect(ahead).toBe(0)
      ahead++
      yield piece
    }
  }
  const { headers, stream } = formOf(
    [{ name: 'file', value: { name: 'large.txt', bytes: 64 * MIB, open } }],
    Math.random,
  )
  let bytes = 0
  for await (const piece of stream) {
    bytes += piece.length
    if (piece.length === MIB) ahead--
  }
  expect(headers['content-length']).toBe(String(bytes))
})

it('each form has a boundary of its own, too long to occur by chance', () => {
  const boundaries = [0, 1].map(() => formOf([], Math.random).headers['content-type'])
  expect(boundaries[0]).toMatch(/^multipart\/form-data; boundary=form-[0-9a-z]{30}$/)
  expect(boundaries[0]).not.toBe(boundaries[1])
})
