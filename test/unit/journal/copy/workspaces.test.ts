// Where workspaces and state entries go when a journal is copied.
import { describe, expect, it } from 'vitest'
import { isCopied, shardsOf, unlistedSinkOf, workspaceOf } from '../../../../src/journal/copy/workspaces.ts'

describe('the shards of workspaces', () => {
  it('are the same for one key, and otherwise spread', () => {
    const shards = shardsOf([['a', 'b'], ['c'], ['d']], [], 3)
    expect(shards.get('a')).toBe(shards.get('b'))
    expect(new Set(shards.values()).size).toBe(3)
  })

  it('are those of configured ones for a workspace that left the configuration', () => {
    const shards = shardsOf([['a'], ['b']], ['left', 'gone', 'old'], 8)
    const configured = [shards.get('a'), shards.get('b')]
    for (const name of ['left', 'gone', 'old']) expect(configured).toContain(shards.get(name))
    expect(shardsOf([], ['left'], 8).get('left')).toBe(1)
  })
})

describe('a state entry', () => {
  it.each([
    ['read:acme:audit', 'acme'],
    ['gap:acme:vault.projects', 'acme'],
    ['versions:acme:history.usage', 'acme'],
    ['canary:acme', 'acme'],
    ['asked-with:acme', 'acme'],
    ['budget:acme:audit', 'acme'],
    ['workspace_met:acme', 'acme'],
    ['workspace_left:acme', 'acme'],
    ['backfill:acme:audit', 'acme'],
    ['replay:splunk:acme:audit', 'acme'],
    ['replay-page:splunk:acme:audit:000001', 'acme'],
    ['instance', undefined],
    ['requests:0123456789abcdef:audit', undefined],
    ['file_cut:acme', undefined],
    ['evidence:archive:chain', undefined],
  ])('%s is of workspace %s', (name, workspace) => {
    expect(workspaceOf(name)).toBe(workspace)
  })

  it.each([
    ['read:acme:audit', true, true],
    ['evidence:archive:chain', false, true],
    ['canary:acme', false, true],
    ['file_end:archive', false, false],
    ['journal.opened_at', false, false],
  ])('%s goes along with other numbers: %s, with the same: %s', (name, other, same) => {
    expect([isCopied(name, false), isCopied(name, true)]).toEqual([other, same])
  })

  it.each([
    ['evidence:archive:settled:0000000000000007', 'archive'],
    ['evidence:archive:pending', 'archive'],
    ['evidence:archive:chain', undefined],
    ['evidence:journal', undefined],
  ])('%s is about unlisted objects of %s', (name, sink) => {
    expect(unlistedSinkOf(name)).toBe(sink)
  })
})
