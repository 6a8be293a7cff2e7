// How much the inventory may keep, to the byte for a limit, and about as much as is written for a weight.
import { expect, it } from 'vitest'
import { checkPage, checkTable, checkWeight } from '../../../../src/sources/vault/bounds.ts'
import { beginningOf, storedId } from '../../../../src/sources/vault/digest.ts'
import { closeVaultCursor, openVaultCursor } from '../../../../src/sources/vault/cursor.ts'
import type { Known, Principal, VaultCursor } from '../../../../src/sources/vault/cursor.ts'
import { Tables } from '../../../../src/sources/vault/shares.ts'

const MOST = 4 * 1024 * 1024

const fresh = () => openVaultCursor(undefined, 0, 'acme')

it('an id of up to 64 characters is kept whole, a longer one as its first 20, a # and its hash', () => {
  expect(storedId('x'.repeat(64))).toBe('x'.repeat(64))
  expect(storedId('x'.repeat(65))).toMatch(/^x{20}#[\w-]{43}$/)
})

it('the head of a text is all of it or so many characters, whatever these are', () => {
  expect([beginningOf('Küche 語', 7), beginningOf('Küche 語', 6), beginningOf('Küche 語', 8)]).toEqual([
    ...['Küche 語', 'Küche ', 'Küche 語'],
  ])
})

it('a page, a table and the whole may be as large as their limit, and no larger', () => {
  const holds = { code: 'misconfigured' }
  expect(() => checkPage(30_000)).not.toThrow()
  expect(() => checkPage(30_001)).toThrow(expect.objectContaining(holds))
  expect(() => checkTable([1], 2, 'levels')).not.toThrow()
  expect(() => checkTable([1, 2], 2, 'levels')).toThrow(expect.objectContaining(holds))
  const cursor = fresh()
  cursor.levels = ['x'.repeat(MOST)]
  expect(() => checkWeight(cursor, 'acme')).not.toThrow()
  cursor.levels.push('x')
  expect(() => checkWeight(cursor, 'acme')).toThrow(expect.objectContaining(holds))
})

it('50,000 users and workspaces may be named, the same ones again too, and no more', () => {
  const user = (n: number): Principal => ({
    kind: 'user',
    id: String(n),
    workspace: '',
    folder: '',
    email: '',
  })
  const tables = new Tables(fresh())
  for (let n = 0; n < 50_000; n++) tables.principal(user(n))
  expect(tables.principal(user(7))).toBe(7)
  expect(() => tables.principal(user(50_000))).toThrow('more than 50000 different users and workspaces')
})

const project = (n: number, more: Partial<Known> = {}): Known => ({
  ...{ id: `6f1c0000-0000-4000-8000-${String(n).padStart(12, '0')}`, name: `project ${n}`, flag: null },
  ...{ content: 'c'.repeat(22), marks: 'm'.repeat(32), sharing: 's'.repeat(22), seen: 7, shares: [] },
  ...more,
})

const withProject = (more: Partial<Known>) => (cursor: VaultCursor, n: number) =>
  void cursor.projects.set(String(n), project(n, more))
const withPrincipal = (more: Partial<Principal>) => (cursor: VaultCursor, n: number) =>
  void cursor.principals.push({
    ...{ kind: 'user', id: `id ${n}`, workspace: '81', folder: '', email: '', ...more },
  })

it.each([
  ['projects', withProject({})],
  ['projects with names in Japanese', withProject({ name: '語'.repeat(90) })],
  ['projects of many fields', withProject({ marks: 'm'.repeat(400) })],
  ['projects with large digests', withProject({ content: 'c'.repeat(400) })],
  ['projects with large digests of shares', withProject({ sharing: 's'.repeat(400) })],
  ['shares', withProject({ shares: Array.from({ length: 400 }, (_, n) => (n % 2 === 0 ? 100 : 3)) })],
  ['principals', withPrincipal({ email: 'keiko.garcia@acme.example' })],
  ['principals with long ids', withPrincipal({ id: 'é'.repeat(300) })],
  ['principals of workspaces with long names', withPrincipal({ workspace: 'é'.repeat(300) })],
  ['principals of folders', withPrincipal({ folder: 'é'.repeat(300) })],
  ['principals with long addresses', withPrincipal({ email: 'é'.repeat(300) })],
  ['levels', (cursor: VaultCursor, n: number) => void cursor.levels.push(`${n} ${'é'.repeat(300)}`)],
])('as many %s may be kept as are written in about 4 MiB', (_, add) => {
  const cursor = fresh()
  const fits = () => {
    try {
      checkWeight(cursor, 'acme')
      return true
    } catch {
      return false
    }
  }
  for (let n = 0; n < 100_000 && (n % 500 > 0 || fits()); n++) add(cursor, n)
  const written = Buffer.byteLength(closeVaultCursor(cursor))
  expect(fits()).toBe(false)
  expect(written / MOST).toBeGreaterThan(0.85)
  expect(written / MOST).toBeLessThan(1.15)
})
