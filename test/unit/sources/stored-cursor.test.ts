// What each source keeps between two reads: opened whole or not at all.
import { expect, test } from 'vitest'
import * as audit from '../../../src/sources/audit/cursor.ts'
import * as history from '../../../src/sources/history/cursor.ts'
import { walkFrom } from '../../../src/sources/audit/walk.ts'
import * as vault from '../../../src/sources/vault/cursor.ts'
import { DAY, START } from '../app/audit-harness.ts'

function auditCursor(): string {
  const cursor = audit.freshAuditCursor(START)
  const head = { id: 'a', at: START * 1000 }
  cursor.head = head
  cursor.overlap.push(head)
  cursor.lookback.walk = walkFrom(head)
  return audit.closeAuditCursor(cursor)
}

function historyCursor(): string {
  return history.closeHistoryCursor(history.freshHistoryCursor(START, START - 3 * DAY, 0))
}

function vaultCursor(): string {
  const cursor = vault.openVaultCursor(undefined, START, 'acme')
  const common = { flag: true, content: 'c', marks: '', sharing: 's', seen: 1 }
  cursor.projects.set('p', { id: 'p', name: 'P', ...common, shares: [0, 0] })
  cursor.levels.push('VIEW')
  cursor.principals.push({ kind: 'user', id: 'u', workspace: '', folder: '', email: 'u@example.com' })
  return vault.closeVaultCursor(cursor)
}

const sources = [
  ['audit', auditCursor(), (text: string) => audit.openAuditCursor(text, START, 'acme')],
  [
    'history.usage',
    historyCursor(),
    (text: string) => history.openHistoryCursor(text, 'acme', 'history.usage'),
  ],
  ['vault.projects', vaultCursor(), (text: string) => vault.openVaultCursor(text, START, 'acme')],
] as const

test.each(sources)('a complete cursor of %s is opened', (_, text, open) => {
  expect(() => open(text)).not.toThrow()
})

test.each(sources)(
  'a cursor of %s that lacks a member, or has nonsense in its place, is reported as damaged',
  (source, text, open) => {
    const whole = JSON.parse(text) as Record<string, unknown>
    const members = Object.keys(whole).filter((name) => name !== 'v')
    expect(members.length).toBeGreaterThan(8)
    for (const name of members)
      for (const nonsense of [undefined, 'secret', [7]]) {
        const opening = () => open(JSON.stringify({ ...whole, [name]: nonsense }))
        expect(opening, name).toThrow(`cursor for ${source} of workspace acme is damaged`)
        expect(opening, name).not.toThrow('secret')
      }
  },
)
