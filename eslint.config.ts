// Lint: typed rules at their strictest, and the layers of docs/architecture.md: imports point down only, folders of one layer do not import each other.
import { readdirSync } from 'node:fs'
import { defineConfig } from 'eslint/config'
import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript'
import { importX } from 'eslint-plugin-import-x'
import tseslint from 'typescript-eslint'

/** Who may import whom, by folder, from the bottom up: docs/architecture.md. Every folder may import itself, `core` and `contracts`. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  core: [],
  contracts: [],
  platform: [],
  formats: [],
  sinks: [],
  sources: [],
  journal: [],
  mock: [],
  observability: ['platform'],
  control: ['journal', 'observability'],
  config: ['formats', 'journal', 'sinks', 'sources'],
  ingest: [],
  delivery: [],
  canary: [],
  jobs: ['ingest', 'observability', 'sources'],
  app: [
    ...['canary', 'config', 'delivery', 'formats', 'ingest', 'jobs'],
    ...['journal', 'observability', 'sinks', 'sources'],
  ],
  cli: [
    ...['app', 'config', 'control', 'journal', 'mock'],
    ...['observability', 'platform', 'sinks', 'sources'],
  ],
  'main.ts': ['cli', 'observability', 'platform'],
  'healthcheck.ts': [],
  'journal-check.ts': ['journal'],
}

/** The same within src/sources and src/sinks: no stream knows another, no sink another. */
const everyStream = ['http', 'splitter', 'shared.ts']
const mayImportInSources: typeof mayImport = {
  http: ['splitter'],
  'shared.ts': ['http'],
  audit: everyStream,
  history: everyStream,
  vault: everyStream,
  assistant: ['http'],
}
const namesIn = (folder: string) =>
  readdirSync(new URL(`${folder}/`, import.meta.url)).filter((name) => name !== 'README.md')

const mayImportInSinks: typeof mayImport = {
  ...Object.fromEntries(namesIn('src/sinks').map((name) => [name, ['kit']])),
  kit: [],
  'index.ts': namesIn('src/sinks'),
}

const GROUND = ['core', 'contracts']

function layers(folder: string, table: typeof mayImport) {
  const names = namesIn(folder)
  const unknown = [...Object.keys(table), ...Object.values(table).flat()].find(
    (name) => !names.includes(name),
  )
  if (unknown !== undefined) throw new Error(`eslint.config.ts names ${unknown}, which is not in ${folder}`)
  return names.flatMap((target) =>
    names
      .filter((from) => from !== target && table[target]?.includes(from) !== true)
      .filter((from) => !GROUND.includes(from) || target === 'core')
      .map((from) => ({
        target: `./${folder}/${target}`,
        from: `./${folder}/${from}`,
        message: `${target} may not import ${from}: see docs/architecture.md`,
      })),
  )
}

export default defineConfig(
  { ignores: ['dist/', 'node_modules/', 'data/', 'out/', 'coverage/', 'site/'] },
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    plugins: { 'import-x': importX },
    settings: { 'import-x/resolver-next': [createTypeScriptImportResolver()] },
    rules: {
      'import-x/no-cycle': 'error',
      'import-x/no-default-export': 'error',
      'import-x/no-restricted-paths': [
        'error',
        {
          zones: [
            ...layers('src', mayImport),
            ...layers('src/sources', mayImportInSources),
            ...layers('src/sinks', mayImportInSinks),
          ],
        },
      ],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-unnecessary-condition': [
        'error',
        { allowConstantLoopConditions: 'only-allowed-literals' },
      ],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/require-await': 'off',
      'max-lines': ['error', { max: 600, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['error', { max: 60, skipBlankLines: true, skipComments: true }],
      // A word of the other side, such as `constructor`, finds in any object what every object has.
      'no-restricted-syntax': [
        'error',
        {
          selector:
            'MemberExpression[computed=true] > TSAsExpression.property > TSTypeOperator[operator="keyof"]',
          message: 'A look-up by a word that may be no key of it: use a Map, or Object.hasOwn.',
        },
      ],
      eqeqeq: 'error',
      'no-console': 'error',
    },
  },
  // A file of tests is one long function by nature, and a script talks to its terminal.
  {
    files: ['test/**', 'bench/**', 'scripts/**'],
    rules: { 'max-lines-per-function': 'off', 'max-lines': 'off', 'no-console': 'off' },
  },
  { files: ['*.config.ts'], rules: { 'import-x/no-default-export': 'off' } },
)
