// A command context that records its output.
import { codeOf } from '../../../src/cli/program.ts'
import type { CommandContext } from '../../../src/cli/shared/context.ts'

export function openContext() {
  const said = { stdout: '', stderr: '' }
  const stop = new AbortController()
  const context: CommandContext = {
    ...{ env: {}, version: '0.0.0', signal: stop.signal },
    stdout: (text) => void (said.stdout += text),
    stderr: (text) => void (said.stderr += text),
    print: async (bytes) => void (said.stdout += Buffer.from(bytes).toString('latin1')),
  }
  /** The output since the last call. */
  const heard = () => {
    const all = { ...said }
    said.stdout = said.stderr = ''
    return all
  }
  return { context, stop, heard }
}

/** The exit code of a command that may throw, as the program reports it. */
export const codeIn = (context: CommandContext, run: Promise<number>): Promise<number> =>
  run.catch((error: unknown) => codeOf(error, [], context))
