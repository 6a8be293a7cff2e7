// What `list` shows of what was set aside, and whether it says that there is more.
import { expect, test } from 'vitest'
import { showList, Sums } from '../../../../src/cli/records/list.ts'
import type { CommandContext } from '../../../../src/cli/shared/world.ts'

async function shown(found: number, limit: number, json: boolean) {
  const reported = { stdout: '', stderr: '' }
  const context = {
    stdout: (text: string) => void (reported.stdout += text),
    stderr: (text: string) => void (reported.stderr += text),
  } as CommandContext
  const letters = Array.from({ length: found }, (_, n) => `letter-${n}`)
  async function* pages() {
    yield letters.slice(0, 1)
    yield letters.slice(1)
  }
  const sums = new Sums<string>({
    kindOf: () => ({}),
    bytes: { of: () => 0, name: 'bytes', title: 'SIZE' },
    noun: String,
  })
  await showList(context, { limit, json }, pages(), sums, {
    ...{ none: 'none', all: 'export', head: ['ID'] },
    row: (id) => [id],
    facts: (id) => ({ id }),
  })
  return reported
}

test.each([false, true])(
  'a list as long as its limit says nothing of more, a longer one does (as data: %s)',
  async (json) => {
    const [whole, cut] = [await shown(2, 2, json), await shown(3, 2, json)]
    expect(whole.stdout + whole.stderr).not.toContain('there are more')
    expect(cut.stdout + cut.stderr).toContain('there are more than these 2')
    expect(cut.stdout).toContain('letter-1')
    expect(cut.stdout).not.toContain('letter-2')
  },
)
