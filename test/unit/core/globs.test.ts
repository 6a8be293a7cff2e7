// `types` patterns: `*` is any text, `!` takes away, the last that matches decides.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { globFilter, takesAll } from '../../../src/core/globs.ts'

it.each<[string[], string, boolean]>([
  [['*'], 'user:create_query', true],
  [['*'], '', true],
  [['user:*'], 'user:create_query', true],
  [['user:*'], 'admin:add_users', false],
  [['auth:login'], 'auth:login', true],
  [['auth:login'], 'auth:login2', false],
  [['*_users'], 'admin:add_users', true],
  [['a*b*c'], 'axxbyyc', true],
  [['a*b*c'], 'axxcyyb', false],
  [['ab*ba'], 'aba', false],
  [['ab*ba'], 'abba', true],
  [['*', '!user:*'], 'user:login', false],
  [['*', '!user:*'], 'auth:login', true],
  [['!user:*'], 'auth:login', true],
  [['!user:*'], 'user:x', false],
  [['*', '!user:*', 'user:delete*'], 'user:delete_playbook', true],
  [['user:*', '*'], 'auth:login', true],
  [[], 'anything', false],
  [['user.*'], 'userXlogin', false],
  [['[a-z]'], 'a', false],
])('%j of %j is %s', (patterns, text, taken) => {
  expect(globFilter(patterns)(text)).toBe(taken)
})

it('a pattern means what the same regular expression means', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', ':'), maxLength: 12 })
  const pattern = fc.string({ unit: fc.constantFrom('a', 'b', ':', '*'), maxLength: 8 })
  fc.assert(
    fc.property(pattern, text, (glob, given) => {
      const expected = new RegExp(`^${glob.replaceAll(/\*+/g, '.*')}$`).test(given)
      expect(globFilter([glob])(given)).toBe(expected)
    }),
    { numRuns: 2_000 },
  )
})

it('a hostile type costs no more than its length', () => {
  const filter = globFilter(['a*a*a*a*a*a*a*a*a*a*b'])
  const startedAt = process.cpuUsage().user
  filter('a'.repeat(200_000))
  expect(process.cpuUsage().user - startedAt).toBeLessThan(1_000_000)
})

it('only the pattern that matches everything takes entries without a type', () => {
  expect(takesAll(['*'])).toBe(true)
  for (const some of [[], ['user:*'], ['*', '!user:*'], ['!user:*']]) expect(takesAll(some)).toBe(false)
})
