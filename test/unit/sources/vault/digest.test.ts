// Contents of the vault are distinguished by their digests, in bounded memory however many there are.
import { expect, test } from 'vitest'
import { Digests } from '../../../../src/sources/vault/digest.ts'
import { sharingDigest } from '../../../../src/sources/vault/shares.ts'

const together = (values: readonly string[]) => {
  const digests = new Digests()
  for (const value of values) digests.add('user', Buffer.from(value))
  return digests.together()
}

test('many together have one digest in any order, and another if one of them differs', () => {
  expect(together(['a', 'b', 'c'])).toBe(together(['c', 'a', 'b']))
  expect(together(['a', 'b', 'c'])).not.toBe(together(['a', 'b', 'd']))
  expect(together(['a', 'b'])).not.toBe(together(['a', 'b', 'b']))
})

test('of more shares than realistic, each still counts', () => {
  const values = Array.from({ length: 50_010 }, (_, i) => String(i))
  expect(together(values)).toBe(together(values))
  expect(together(values.with(50_005, 'another'))).not.toBe(together(values))
  expect(together(values.with(5, 'another'))).not.toBe(together(values))
})

// All work, which took 33 s beside a load of 15.
test('two million shares in one answer take little memory of their own', { timeout: 90_000 }, () => {
  const raw = Buffer.from(`{"user_shares":[${'1,'.repeat(1_900_000)}1]}`)
  const before = process.memoryUsage().heapUsed
  sharingDigest(raw)
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(64 * 2 ** 20)
})
