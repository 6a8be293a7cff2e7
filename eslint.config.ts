// Lint: typed rules at their strictest, and the floor plan of src/README.md: imports run strictly downward, siblings never meet.
import { readdirSync } from 'node:fs'
import { defineConfig } from 'eslint/config'
import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript'
import { importX } from 'eslint-plugin-import-x'
import tseslint from 'typescript-eslint'

/** What stands in src, from its ground up: whom each may import, beside `model` and itself. Whoever is not named may import nobody. */
const mayKnow: Readonly<Record<string, readonly string[]>> = {
  config: ['source', 'formats', 'sinks'],
  // What the daemon is built of.
  'budgets.ts': ['source', 'config'],
  'parts.ts': ['budgets.ts', 'outside.ts', 'ops', 'config'],
  'access.ts': ['budgets.ts', 'outside.ts', 'parts.ts', 'source', 'ops', 'config', 'collect'],
  past: ['source', 'ops', 'collect'],
  'probing.ts': ['parts.ts', 'source', 'config', 'canary'],
  'reading.ts': ['parts.ts', 'source', 'ops', 'config', 'access.ts', 'probing.ts', 'past'],
  'wanted.ts': ['config'],
  'file-loss.ts': ['ops'],
  'shipping.ts': [
    'outside.ts',
    'parts.ts',
    'wanted.ts',
    'file-loss.ts',
    'formats',
    'sinks',
    'ops',
    'config',
    'ship',
  ],
  'putting-back.ts': ['wanted.ts', 'config', 'ship'],
  'single-run.ts': ['access.ts', 'shipping.ts', 'ops'],
  'connections.ts': ['outside.ts', 'shipping.ts', 'source', 'config'],
  'unread-secrets.ts': ['ops', 'config'],
  'running.ts': [
    ...['outside.ts', 'parts.ts', 'access.ts', 'reading.ts', 'shipping.ts', 'past', 'unread-secrets.ts'],
    ...['config', 'collect', 'ship'],
  ],
  'app.ts': [
    ...['budgets.ts', 'outside.ts', 'parts.ts', 'reading.ts', 'shipping.ts', 'past'],
    ...['single-run.ts', 'running.ts', 'journal', 'ops', 'config'],
  ],
  // Whoever starts it.
  commands: [
    ...['source', 'journal', 'formats', 'sinks', 'gzip', 'ops', 'mock', 'config'],
    ...['outside.ts', 'connections.ts', 'putting-back.ts', 'app.ts'],
  ],
  'main.ts': ['commands', 'ops'],
  'journal-check.ts': ['journal'],
}

const everySource = ['client', 'cutting', 'answer', 'shared']

/** The same of what stands in src/source: no source knows another. */
const mayKnowInSource: typeof mayKnow = {
  client: ['budget'],
  answer: ['client', 'cutting'],
  shared: ['client'],
  audit: everySource,
  history: everySource,
  vault: everySource,
  'shapes.ts': ['client', 'cutting', 'answer', 'audit', 'history', 'vault'],
  assistant: ['client'],
  'vault-client': ['client', 'answer'],
}

const everyJob = ['ranges.ts', 'progress.ts', 'orders.ts', 'keep.ts']

/** The same of what stands in src/past. */
const mayKnowInPast: typeof mayKnow = {
  'progress.ts': ['ranges.ts'],
  'notes.ts': ['progress.ts'],
  'backfill-order.ts': ['notes.ts', 'progress.ts'],
  'replay-order.ts': ['notes.ts', 'progress.ts'],
  'orders.ts': ['keep.ts', 'notes.ts', 'progress.ts'],
  'keep.ts': ['progress.ts'],
  'surveys.ts': ['ranges.ts', 'progress.ts', 'walks.ts'],
  'backfills.ts': [...everyJob, 'backfill-order.ts'],
  'replay-page.ts': ['notes.ts', 'orders.ts', 'replay-order.ts'],
  'replays.ts': [...everyJob, 'replay-order.ts', 'replay-page.ts'],
  'open.ts': ['ranges.ts', 'surveys.ts', 'backfills.ts', 'replays.ts'],
}

const everyCommand = ['aside', 'backfill', 'config', 'demo', 'replay', 'reconcile', 'run', 'status', 'verify']

/** The same of what stands in src/commands: what several commands need stands in `shared`, and no command knows another. */
const mayKnowInCommands: typeof mayKnow = {
  ...Object.fromEntries(everyCommand.map((command) => [command, ['shared']])),
  // The demo has the daemon run in it.
  demo: ['shared', 'run'],
  'command-options.ts': ['arguments.ts'],
  'command-list.ts': ['arguments.ts', 'command-options.ts', 'shared', ...everyCommand],
  'completion.ts': ['shared'],
  'program.ts': ['command-list.ts', 'completion.ts', 'shared'],
}

const namesIn = (folder: string) =>
  readdirSync(new URL(`${folder}/`, import.meta.url)).filter((name) => name !== 'README.md')

function floorPlan(folder: string, plan: typeof mayKnow) {
  const names = namesIn(folder)
  const unknown = [...Object.keys(plan), ...Object.values(plan).flat()].find((name) => !names.includes(name))
  if (unknown !== undefined) throw new Error(`eslint.config.ts names ${unknown}, which is not in ${folder}`)
  return names.flatMap((target) =>
    names
      .filter((from) => from !== target && from !== 'model' && plan[target]?.includes(from) !== true)
      .map((from) => ({
        target: `./${folder}/${target}`,
        from: `./${folder}/${from}`,
        message: `${target} may not know ${from}: see src/README.md`,
      })),
  )
}

const readOnly = {
  target: namesIn('src')
    .filter((name) => name !== 'source')
    .map((name) => `./src/${name}`),
  from: './src/source/vault-client',
  message: 'some of its operations change the vault, and the daemon only reads it',
}

export default defineConfig(
  { ignores: ['dist/', 'node_modules/', 'data/', 'out/', 'coverage/'] },
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
            ...floorPlan('src', mayKnow),
            ...floorPlan('src/source', mayKnowInSource),
            ...floorPlan('src/past', mayKnowInPast),
            ...floorPlan('src/commands', mayKnowInCommands),
            readOnly,
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
      'max-lines': ['error', { max: 300, skipBlankLines: true, skipComments: true }],
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
