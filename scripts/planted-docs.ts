// Writes the page of the planted bugs from their list, and looks whether the list still fits the sources: node scripts/planted-docs.ts [--check]
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { format, resolveConfig } from 'prettier'
import { seeds } from '../test/rounds.ts'
import { areaBugs } from './planted-bugs-areas.ts'
import { plantedBugs as otherBugs } from './planted-bugs-list.ts'
import type { Detector, Edit } from './planted-bugs-list.ts'

export const plantedBugs = [...otherBugs, ...areaBugs]

const root = join(import.meta.dirname, '..')
const PAGE = 'docs/planted-bugs.md'

export function told(detector: Detector): string {
  if ('seeds' in detector)
    return detector.seeds === 1
      ? `simulation, seed ${detector.from}`
      : `simulation, seeds ${detector.from} to ${detector.from + detector.seeds - 1}`
  return `${detector.file}: ${detector.title}`
}

/** Why an edit cannot be made in its file's text; undefined where it can. */
export function unfitEdit({ file, find }: Edit, text: string): string | undefined {
  const times = text.split(find).length - 1
  return times === 1
    ? undefined
    : `${file} holds ${times} times what the bug replaces: bring the list up to date`
}

const textOf = (file: string) => (existsSync(join(root, file)) ? readFileSync(join(root, file), 'utf8') : '')

/** `--trusted` relies on it: the suites run every seed that a bug names. */
function unfitTest(test: Detector): string | undefined {
  if (!('seeds' in test)) return textOf(test.file) === '' ? `there is no ${test.file}` : undefined
  const last = test.from + test.seeds - 1
  return last > seeds.all ? `no suite runs seed ${last}, the last is ${seeds.all}` : undefined
}

/** What of the list no longer fits the sources: a quote that does not stand there once, a test file that is gone, a seed that no suite runs. */
function unfit(): string[] {
  return plantedBugs.flatMap(({ name, edits, tests }) => [
    ...edits.flatMap((edit) => unfitEdit(edit, textOf(edit.file)) ?? []),
    ...tests.flatMap((test) => unfitTest(test) ?? []).map((why) => `${name}: ${why}`),
  ])
}

async function page(): Promise<string> {
  const cell = (text: string) => text.replaceAll('|', '\\|')
  const rows = plantedBugs.map(({ name, law, edits, tests }) => {
    const files = [...new Set(edits.map(({ file }) => `\`${file}\``))].join(', ')
    return `| ${cell(name)} | ${files} | ${cell(law)} | ${tests.map((test) => cell(told(test))).join('; ')} |`
  })
  const text = `# Planted bugs

A test that never failed proves little. Each bug below breaks one of the [guarantees](guarantees.md); the tests beside it must notice. The command
plants them one at a time in a private copy of the sources, first making sure that the unbroken copy passes, and exits 1 when one
survives:

\`\`\`sh
npm run test:planted                 # all of them
npm run test:planted -- fsync NORMAL # those whose name holds one of these words
\`\`\`

A range of seeds notices when one of its seeds fails; \`npm run simulate -- <how many> <from>\` runs it alone. The bugs stand as data in
\`scripts/planted-bugs-list.ts\` and \`scripts/planted-bugs-areas.ts\`; this page is written from them by \`node scripts/planted-docs.ts\`.

| bug | planted in | law that it breaks | noticed by |
| --- | --- | --- | --- |
${rows.join('\n')}
`
  return format(text, { ...(await resolveConfig(PAGE)), parser: 'markdown' })
}

if (import.meta.main) {
  const only = process.argv.includes('--check')
  const faults = unfit()
  const fresh = await page()
  if (fresh !== textOf(PAGE)) {
    if (only) faults.push(`${PAGE} does not tell what the list says: run node scripts/planted-docs.ts`)
    else writeFileSync(join(root, PAGE), fresh)
  }
  for (const fault of faults) console.error(fault)
  if (faults.length > 0) process.exitCode = 1
}
