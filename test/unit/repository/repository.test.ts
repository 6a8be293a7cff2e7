// What a stranger's machine needs of the repository itself: licence, lock file, program, and nothing of the machine that it was made on.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const read = (path: string): string => readFileSync(path, 'utf8')
const manifest = JSON.parse(read('package.json')) as {
  readonly license: string
  readonly bin: Readonly<Record<string, string>>
  readonly scripts: Readonly<Record<string, string>>
}

test('the licence is Apache-2.0, in full and by name', () => {
  expect(manifest.license).toBe('Apache-2.0')
  expect(read('LICENSE')).toMatch(/Apache License\s+Version 2\.0, January 2004/)
})

test('the program starts with a shebang, and is built from the file that does', () => {
  expect(manifest.bin).toEqual({ auditferry: 'dist/main.js' })
  expect(read('src/main.ts').startsWith('#!/usr/bin/env node\n')).toBe(true)
})

test.each(['src', 'test', 'bench', 'scripts'])(
  'each file of %s says in its first line what it is for',
  (folder) => {
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) =>
      path.endsWith('.ts'),
    )
    const others = files.filter((path) => !read(join(folder, path)).startsWith('// '))
    // The program itself begins with the line by which a shell runs it.
    expect(others).toEqual(folder === 'src' ? ['main.ts'] : [])
  },
)

test('npm ci builds it', () => {
  expect(manifest.scripts['prepare']).toBe('npm run build')
})

test('the lock file names no download address, locks every package that it needs, and needs no compiler', () => {
  expect(read('.npmrc')).toContain('omit-lockfile-registry-resolved=true')
  const { status, stderr } = spawnSync(process.execPath, ['scripts/check-lock.ts'], { encoding: 'utf8' })
  expect(stderr).toBe('')
  expect(status).toBe(0)
})

test.runIf(existsSync('.git'))(
  'no file has a registry’s address or a path of the machine it was made on',
  () => {
    // In pieces, or this file would be found.
    const forbidden = [
      new RegExp(['registry', '(npmjs|yarnpkg|npmmirror)', '(org|com)'].join('\\.')),
      new RegExp(`(?<![\\w.])/(${['wo' + 'rk', 'ro' + 'ot'].join('|')})/`),
    ]
    const files = execFileSync('git', ['ls-files', '-z'], { encoding: 'utf8' }).split('\0').filter(Boolean)
    const found = files
      .filter((path) => existsSync(path))
      .flatMap((path) => {
        const text = readFileSync(path, 'latin1')
        return forbidden.flatMap((word) =>
          word.test(text) ? [`${path}: ${word.exec(text)?.[0] ?? ''}`] : [],
        )
      })
    expect(found).toEqual([])
  },
)

const git = (...args: string[]) =>
  spawnSync('git', args, { encoding: 'utf8' }).stdout.split('\n').filter(Boolean)

test.runIf(existsSync('.git'))(
  'files that the documents have a person create in a checkout are ignored, and nothing that belongs there is',
  () => {
    const made = [
      ...['config/auditferry.yaml', 'data/auditferry.db', 'out/entries.ndjson', 'values.yaml', 'api-key'],
      ...['bundle.md', 'letters.ndjson', 'malformed.ndjson', 'manifest.ndjson', 'object.ndjson.gz'],
      ...['signing-key.pem', 'public.pem'],
    ]
    expect(git('check-ignore', '--no-index', ...made)).toEqual(made)
    expect(git('ls-files', '--cached', '--ignored', '--exclude-standard')).toEqual([])
  },
)
