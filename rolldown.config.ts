// The build: a dozen files instead of some eight hundred, so that every command starts in half the time.
import type { Plugin, RolldownOptions } from 'rolldown'

const BUILT_IN = /^import (?:([\w$]+)(?:, )?)?(?:\* as ([\w$]+)|(\{.+\}))? from "(node:[\w/]+)";$/gm

/**
 * Built-ins are asked for by call. Imported, Node reads each of their exports, and some, such as `http.WebSocket`, load a library
 * of their own when they are read: a third of what the health check takes.
 */
const builtInsByCall: Plugin = {
  name: 'built-ins-by-call',
  renderChunk: (code) => ({
    // Each line stays where it was.
    map: null,
    code: code.replace(BUILT_IN, (_, whole?: string, all?: string, names?: string, from?: string) => {
      const targets = [whole, all, names?.replaceAll(' as ', ': ')].filter((target) => target !== undefined)
      return `const ${targets.map((target) => `${target} = process.getBuiltinModule("${from}")`).join(', ')};`
    }),
  }),
}

/** The other driver of pg needs pg-native, a compiled package that is never installed; a variable could switch it on. */
const withoutNativeDriver: Plugin = {
  name: 'without-native-driver',
  load: (id) =>
    /[\\/]pg[\\/]lib[\\/]native[\\/]index\.js$/.test(id) ? "module.exports = require('../client')" : null,
}

export default {
  input: { main: 'src/main.ts', health: 'src/healthcheck.ts', 'journal-check': 'src/journal-check.ts' },
  platform: 'node',
  // What is native, and what is large and loaded only where it is asked for, stays a package of its own. OpenTelemetry's API is
  // neither: the metrics' library loads it at every start. What stays outside and what is built in meet by `Symbol.for`.
  external: ['better-sqlite3', /^@aws-sdk\//, /^@opentelemetry\/(?!api$)/],
  plugins: [builtInsByCall, withoutNativeDriver],
  output: { dir: 'dist', cleanDir: true, sourcemap: true, chunkFileNames: '[name].js' },
} satisfies RolldownOptions
