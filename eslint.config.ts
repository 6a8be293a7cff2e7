// Lint: typed rules at their strictest, and the floor plan of design: imports run strictly downward, siblings never meet.
import { defineConfig } from 'eslint/config'
import { createTypeScriptImportResolver } from 'eslint-import-resolver-typescript'
import { importX } from 'eslint-plugin-import-x'
import tseslint from 'typescript-eslint'

const rooms = ['source', 'journal', 'formats', 'sinks', 'ops', 'mock']
const everything = [
  'source',
  'journal',
  'formats',
  'sinks',
  'ops',
  'mock',
  'config',
  'collect.ts',
  'kept-reads.ts',
  'canary',
  'ship',
  'budgets.ts',
  'outside.ts',
  'access.ts',
  'probing.ts',
  'ranges.ts',
  'reading.ts',
  'shipping.ts',
  'retrying.ts',
  'surveying.ts',
  'backfill-order.ts',
  'backfilling.ts',
  'past-orders.ts',
  'replay-order.ts',
  'replay-page.ts',
  'replaying.ts',
  'progress.ts',
  'connections.ts',
  'running.ts',
  'app.ts',
  'commands',
  'main.ts',
]

/** `target` may import nothing below src but what stands in `allowed`. */
const floor = (target: string, allowed: string[]) =>
  everything
    .filter((from) => from !== target && !allowed.includes(from))
    .map((from) => ({
      target: `./src/${target}`,
      from: `./src/${from}`,
      message: `${target} may not know ${from}: see src/README.md`,
    }))

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
            ...floor('model', []),
            ...rooms.flatMap((room) => floor(room, [])),
            ...floor('collect.ts', ['kept-reads.ts']),
            ...floor('kept-reads.ts', []),
            ...floor('canary', []),
            ...floor('ship', []),
            ...floor('config', ['source', 'formats', 'sinks']),
            ...floor('budgets.ts', ['source', 'config']),
            ...floor('outside.ts', ['ops', 'config', 'budgets.ts']),
            ...floor('probing.ts', ['outside.ts', 'source', 'ops', 'config', 'canary']),
            ...floor('access.ts', [
              'budgets.ts',
              'outside.ts',
              'source',
              'ops',
              'config',
              'collect.ts',
              'kept-reads.ts',
            ]),
            ...floor('reading.ts', [
              'outside.ts',
              'source',
              'ops',
              'config',
              'access.ts',
              'probing.ts',
              'ranges.ts',
            ]),
            ...floor('ranges.ts', []),
            ...floor('surveying.ts', ['outside.ts', 'ranges.ts', 'source']),
            ...floor('backfill-order.ts', ['ops']),
            ...floor('past-orders.ts', ['ranges.ts']),
            ...floor('backfilling.ts', [
              'ranges.ts',
              'surveying.ts',
              'backfill-order.ts',
              'past-orders.ts',
              'collect.ts',
            ]),
            ...floor('replay-order.ts', ['ops']),
            ...floor('replay-page.ts', ['past-orders.ts', 'replay-order.ts']),
            ...floor('replaying.ts', [
              'ranges.ts',
              'past-orders.ts',
              'replay-order.ts',
              'replay-page.ts',
              'collect.ts',
            ]),
            ...floor('shipping.ts', ['outside.ts', 'formats', 'sinks', 'ops', 'config', 'ship']),
            ...floor('retrying.ts', ['shipping.ts', 'config', 'ship']),
            ...floor('progress.ts', ['access.ts', 'shipping.ts', 'ops']),
            ...floor('connections.ts', ['outside.ts', 'shipping.ts', ...rooms, 'config']),
            ...floor('running.ts', [
              'outside.ts',
              'access.ts',
              'reading.ts',
              'shipping.ts',
              'backfilling.ts',
              'replaying.ts',
              'config',
              'collect.ts',
              'ship',
            ]),
            ...floor('app.ts', [
              'budgets.ts',
              'outside.ts',
              'reading.ts',
              'shipping.ts',
              'backfill-order.ts',
              'backfilling.ts',
              'replay-order.ts',
              'replaying.ts',
              'progress.ts',
              'running.ts',
              'journal',
              'ops',
              'config',
            ]),
            ...floor('commands', [...rooms, 'config', 'connections.ts', 'retrying.ts', 'app.ts']),
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
      eqeqeq: 'error',
      'no-console': 'error',
    },
  },
  // Names of repeated shapes that a test may leave looser: a test is one long function by nature.
  {
    files: ['test/**', 'bench/**', 'scripts/**'],
    rules: { 'max-lines-per-function': 'off', 'max-lines': 'off', 'no-console': 'off' },
  },
  { files: ['*.config.ts'], rules: { 'import-x/no-default-export': 'off' } },
)
