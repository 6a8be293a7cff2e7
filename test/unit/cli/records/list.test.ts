// What `list` prints of dead letters and quarantine, and whether it says that there are more.
import { expect, test } from 'vitest'
import { showList } from '../../../../src/cli/records/list.ts'
import type { CommandContext } from '../../../../src/cli/shared/context.ts'

async function shown(found: number, limit: number, json: boolean) {
  const reported = { stdout: '', stderr: '' }
  const context = {
    stdout: (text: string) => void (reported.stdout += text),
    stderr: (text: string) => void (reported.stderr += text),
  } as CommandContext
  const items = Array.from({ length: found }, (_, id) => ({
    ...{ id, reason: 'no_id', stream: { workspace: 'acme', source: 'audit' as const } },
  }))
  async function* pages() {
    yield items.slice(0, 1)
    yield items.slice(1)
  }
  const kind = {
    ...{ name: 'quarantine' as const, head: ['ID'], noun: String, bytes: { name: 'bytes', title: 'SIZE' } },
    row: ({ id }: { id: number }) => [`item-${id}`],
    facts: ({ id }: { id: number }) => ({ id: `item-${id}` }),
    sumOf: () => ({}),
    bytesOf: () => 0,
  }
  await showList(context, { limit, json }, pages(), kind, 'none')
  return reported
}

test.each([false, true])(
  'a list exactly as long as its limit mentions no more, a longer one does (--json: %s)',
  async (json) => {
    const [whole, cut] = [await shown(2, 2, json), await shown(3, 2, json)]
    expect(whole.stdout + whole.stderr).not.toContain('there are more')
    expect(cut.stdout + cut.stderr).toContain('there are more than these 2')
    expect(cut.stdout).toContain('item-1')
    expect(cut.stdout).not.toContain('item-2')
  },
)
