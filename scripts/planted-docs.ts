// Writes the page of the planted bugs from their list, and looks whether the list still fits the sources: node scripts/planted-docs.ts [--check]
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { format, resolveConfig } from 'prettier'
import { seeds } from '../test/rounds.ts'
import { areaBugs } from './planted-bugs-areas.ts'
import { plantedBugs as otherBugs } from './planted-bugs-list.ts'
import { postgresBugs } from './planted-bugs-postgres.ts'
import type { Detector, Edit } from './planted-bugs-list.ts'

export const plantedBugs = [...otherBugs, ...areaBugs, ...postgresBugs]

const root = join(import.meta.dirname, '..')
const PAGE = 'docs/planted-bugs.md'

export function reported(detector: Detector): string {
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

/** What no longer fits the sources: a text that is not in its file exactly once, a missing test file, a seed that no suite runs. */
function unfit(): string[] {
  return plantedBugs.flatMap(({ name, edits, tests }) => [
    ...edits.flatMap((edit) => unfitEdit(edit, textOf(edit.file)) ?? []),
    ...tests.flatMap((test) => unfitTest(test) ?? []).map((why) => `${name}: ${why}`),
  ])
}

async function page(): Promise<string> {
  const groups = new Map<string, string[]>()
  // The daemon does not open a journal in PostgreSQL yet, so the page does not list its bugs.
  for (const { name, invariant, tests } of [...otherBugs, ...areaBugs]) {
    const kept = invariant.slice(0, invariant.indexOf(':'))
    const title = /^\d+$/.test(kept) ? `Invariant ${kept}` : `\`${kept}\``
    const detectors = [...new Set(tests.map((test) => ('seeds' in test ? 'simulation' : `\`${test.file}\``)))]
    const line = `- ${name}: ${detectors.join(', ')}`
    groups.set(title, [...(groups.get(title) ?? []), line])
  }
  const order = (title: string) => Number.parseInt(title.slice('Invariant '.length)) || Infinity
  const sections = [...groups]
    .sort(([a], [b]) => order(a) - order(b) || 0)
    .map(([title, lines]) => `## ${title}\n\n${lines.join('\n')}`)
  const text = `# Planted bugs

A test that never failed proves little. Each bug below breaks an invariant of [the guarantees](guarantees.md), or a promise of the sink or format named. The command plants one bug at a time in a copy of the sources, and exits 1 if the tests miss one:

\`\`\`sh
npm run test:planted                 # all of them
npm run test:planted -- fsync NORMAL # those whose name has one of these words
\`\`\`

\`scripts/planted-bugs-*.ts\` have each edit and the titles or seeds of its tests.

${sections.join('\n\n')}
`
  return format(text, { ...(await resolveConfig(PAGE)), parser: 'markdown' })
}

if (import.meta.main) {
  const only = process.argv.includes('--check')
  const faults = unfit()
  const fresh = await page()
  if (fresh !== textOf(PAGE)) {
    if (only) faults.push(`${PAGE} differs from the list: run node scripts/planted-docs.ts`)
    else writeFileSync(join(root, PAGE), fresh)
  }
  for (const fault of faults) console.error(fault)
  if (faults.length > 0) process.exitCode = 1
}
