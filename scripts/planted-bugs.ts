// Plants each bug of the list into a private copy of the sources and looks whether the named tests notice: node scripts/planted-bugs.ts [part of a name…]
import { spawn } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { plantedBugs, reported, unfitEdit } from './planted-docs.ts'
import { noPostgres } from '../test/postgres/server.ts'
import type { Detector, PlantedBug } from './planted-bugs-list.ts'
import { postgresBugs } from './planted-bugs-postgres.ts'

const root = join(import.meta.dirname, '..')
/** A bug that makes a test hang is noticed too. */
const PATIENCE_MS = 240_000

/** These tests need a PostgreSQL of this machine. */
const POSTGRES = 'test/postgres/'

/** Seeds at a time. */
const LOT = 5

/** A copy that may be broken: the sources are copied, the packages only linked. */
function copyTree(): string {
  const copy = mkdtempSync(join(tmpdir(), 'auditferry-planted-'))
  for (const name of ['src', 'test', 'bench', 'scripts', 'config', 'docs'])
    cpSync(join(root, name), join(copy, name), { recursive: true })
  for (const name of readdirSync(root).filter((file) => /\.(json|ts)$/.test(file)))
    cpSync(join(root, name), join(copy, name))
  // A folder of its own, so that what tools leave among the packages stays in the copy.
  mkdirSync(join(copy, 'node_modules'))
  for (const name of readdirSync(join(root, 'node_modules')).filter((file) => !file.startsWith('.')))
    symlinkSync(join(root, 'node_modules', name), join(copy, 'node_modules', name))
  return copy
}

function plant(copy: string, { edits }: PlantedBug): string | undefined {
  for (const edit of edits) {
    const path = join(copy, edit.file)
    const text = readFileSync(path, 'utf8')
    const unfit = unfitEdit(edit, text)
    if (unfit !== undefined) return unfit
    // By a function: a $ in it would mean something.
    writeFileSync(
      path,
      text.replace(edit.find, () => edit.replace),
    )
  }
  return undefined
}

function argumentsOf(detector: Detector): string[] {
  if ('seeds' in detector) return ['test/simulation/main.ts', String(detector.seeds), String(detector.from)]
  const { file, title } = detector
  const pattern = title.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  const project = file.startsWith(POSTGRES) ? 'postgres' : 'unit'
  return ['node_modules/vitest/vitest.mjs', 'run', '--project', project, file, '-t', pattern]
}

interface Ran {
  readonly passed: boolean
  readonly output: string
}

/** Seeds go in small lots: most bugs are noticed by one of the first. */
async function run(copy: string, detector: Detector): Promise<Ran> {
  if (!('seeds' in detector) || detector.seeds <= LOT) return runOnce(copy, detector)
  const { seeds, from } = detector
  const first = await runOnce(copy, { seeds: LOT, from })
  return first.passed ? run(copy, { seeds: seeds - LOT, from: from + LOT }) : first
}

function runOnce(copy: string, detector: Detector): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, argumentsOf(detector), {
      cwd: copy,
      env: { PATH: process.env['PATH'], NO_COLOR: '1', CI: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: PATIENCE_MS,
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    child.once('error', reject)
    child.once('close', (code) => resolve({ passed: code === 0 && hasRun(detector, output), output }))
  })
}

/** A title that no test has would pass by running nothing. */
function hasRun(detector: Detector, output: string): boolean {
  return 'seeds' in detector || /Tests .*\d+ passed/.test(output)
}

/** What is wrong; undefined when every detector noticed. */
async function judge(bug: PlantedBug): Promise<string | undefined> {
  const copy = copyTree()
  try {
    const unfit = plant(copy, bug)
    if (unfit !== undefined) return unfit
    for (const detector of bug.tests) {
      const { passed, output } = await run(copy, detector)
      if (passed) return `survived ${reported(detector)}`
      if (!bug.says.test(output))
        return `${reported(detector)} failed, but not over this bug:\n${output.slice(-3000)}`
    }
    return undefined
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

/** Every detector once on the sources as they are: what fails there cannot tell a bug. */
async function judgeUnbroken(bugs: readonly PlantedBug[]): Promise<boolean> {
  const copy = copyTree()
  const detectors = new Map(
    bugs.flatMap(({ tests }) => tests).map((detector) => [reported(detector), detector]),
  )
  let sound = true
  try {
    await inParallel([...detectors], async ([name, detector]) => {
      const { passed, output } = await run(copy, detector)
      if (passed) return
      sound = false
      process.stdout.write(`FAILS UNBROKEN  ${name}\n${output.slice(-3000)}\n`)
    })
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
  return sound
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items]
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: Math.max(1, availableParallelism()) }, worker))
}

/** `trusted`: the suites have just passed on these very sources, so the unbroken copy need not be looked at. */
async function main(words: readonly string[], trusted: boolean): Promise<number> {
  const missing = noPostgres()
  if (missing !== undefined) process.stdout.write(`SKIPPED: the bugs of PostgreSQL: ${missing}\n`)
  const bugs = plantedBugs
    .filter(({ name }) => words.length === 0 || words.some((word) => name.includes(word)))
    .filter((bug) => missing === undefined || !postgresBugs.includes(bug))
  if (bugs.length === 0) {
    process.stdout.write(
      `no bug is named so; there are:\n${plantedBugs.map(({ name }) => `  ${name}\n`).join('')}`,
    )
    return 2
  }
  if (!trusted && !(await judgeUnbroken(bugs))) return 1
  let survived = 0
  await inParallel(bugs, async (bug) => {
    const startedAt = Date.now()
    const fault = await judge(bug)
    if (fault !== undefined) survived++
    const seconds = Math.round((Date.now() - startedAt) / 1000)
    process.stdout.write(
      `${fault === undefined ? 'caught  ' : 'SURVIVED'}  ${bug.name} (${seconds} s)${fault === undefined ? '' : `\n  ${fault}`}\n`,
    )
  })
  process.stdout.write(`${bugs.length - survived} of ${bugs.length} planted bugs are caught\n`)
  return survived === 0 ? 0 : 1
}

const TRUSTED = '--trusted'
const words = process.argv.slice(2)
process.exitCode = await main(
  words.filter((word) => word !== TRUSTED),
  words.includes(TRUSTED),
)
